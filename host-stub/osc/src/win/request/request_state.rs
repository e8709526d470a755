//! The state of a request, and the window's pool of such states. The pool grows by chunks and reuses states, so a request
//! needs no allocation if as many were outstanding before.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use plugin_api::Status;

use crate::door::Completion;
use crate::win::pending::Pending;

/// The last step of an operation: takes the operation's first failure, or 0, and returns the status
/// of operation and step together.
pub(in crate::win) type LastStep = Box<dyn FnOnce(i32) -> i32 + Send>;

/// The last step of an operation after all its fragments have ended, before it is complete.
struct Rest {
    step: LastStep,
    /// Whether the call was refused: the step gets a failure that the caller already knows.
    refused: AtomicBool,
    /// For an operation without a request: the owner of the state, and the count whose flush
    /// reports the failure.
    unasked: Option<(NonNull<RequestPool>, NonNull<Pending>)>,
}

/// The counts that the callbacks of one request change. The address of the state is the `data` of
/// callbacks.
#[derive(Default)]
pub(in crate::win) struct RequestState {
    /// Pieces under way, plus one while the request is being issued.
    pending: AtomicUsize,
    failed: AtomicI32,
    end: Completion,
    /// Null if the operation has no last step. Owned by the state while the operation is under way.
    rest: AtomicPtr<Rest>,
}

impl RequestState {
    #[inline]
    pub(in crate::win) fn begin(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a piece ended. The request may be freed when this returns.
    #[inline]
    pub(in crate::win) fn finish(&self, status: i32) {
        if status < 0 {
            // An earlier failure is kept.
            let _ = self
                .failed
                .compare_exchange(0, status, Ordering::Relaxed, Ordering::Relaxed);
        }
        // Release: the effects of each piece come before the end, which the last piece makes.
        match self.pending.fetch_sub(1, Ordering::AcqRel) {
            1 if self.rest.load(Ordering::Relaxed).is_null() => {
                self.end.complete();
            }
            1 => self.take_last_step(),
            0 => self.finished_twice(),
            _ => {}
        }
    }

    /// Runs the last step after all pieces have ended.
    #[cold]
    #[inline(never)]
    fn take_last_step(&self) {
        let rest = self.rest.swap(std::ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: made by `Rest::put_into` and taken once, since one piece is the last; the AcqRel count made
        // it visible here.
        let rest = unsafe { Box::from_raw(rest) };
        let failed = self.failed.load(Ordering::Relaxed);
        let refused = rest.refused.load(Ordering::Relaxed);
        let before = match failed {
            0 if refused => Status::ERROR.0,
            failed => failed,
        };
        let after = (rest.step)(before);
        let outcome = if refused { failed } else { after };
        match rest.unasked {
            None => {
                self.failed.store(outcome, Ordering::Relaxed);
                self.end.complete();
            }
            Some((pool, pending)) => {
                // SAFETY: the pool and the pending count belong to the window, which lives: the piece that
                // ended last is still counted for its target, or the issuing call has not returned.
                let (pool, pending) = unsafe { (pool.as_ref(), pending.as_ref()) };
                if outcome < 0 {
                    pending.fail(Status(outcome));
                }
                pool.give_back(NonNull::from(self));
            }
        }
    }

    /// Notes that the call is refused: the last step then gets a failure, which no flush reports.
    #[cold]
    pub(in crate::win) fn refuse(&self) {
        // SAFETY: the issuer still counts, so the last step was not taken.
        if let Some(rest) = unsafe { self.rest.load(Ordering::Relaxed).as_ref() } {
            rest.refused.store(true, Ordering::Relaxed);
        }
    }

    /// More pieces ended than began: the plugin called a callback twice.
    #[cold]
    fn finished_twice(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
        if cfg!(debug_assertions) {
            tracing::error!(
                "a request was completed twice: a callback of the plugin ran once too often"
            );
        }
    }

    /// Gives a fresh state a last step, which runs when all pieces have ended.
    pub(in crate::win) fn leave(
        &self,
        step: LastStep,
        unasked: Option<(NonNull<RequestPool>, NonNull<Pending>)>,
    ) {
        let rest = Box::new(Rest {
            step,
            refused: AtomicBool::new(false),
            unasked,
        });
        self.rest.store(Box::into_raw(rest), Ordering::Relaxed);
    }

    /// The first failure of a state whose operation has ended, or 0.
    #[inline]
    pub(in crate::win) fn failed(&self) -> i32 {
        self.failed.load(Ordering::Relaxed)
    }

    /// The completion that reports the end.
    #[inline]
    pub(in crate::win) fn end(&self) -> &Completion {
        &self.end
    }

    #[inline]
    pub(in crate::win) fn is_done(&self) -> bool {
        self.end.is_complete()
    }
}

const CHUNK: usize = 64;

/// The request states of a window.
#[derive(Default)]
pub(in crate::win) struct RequestPool {
    /// The states that no request uses.
    free: Mutex<Vec<NonNull<RequestState>>>,
    /// The memory of all states.
    chunks: Mutex<Vec<NonNull<[RequestState; CHUNK]>>>,
}

// SAFETY: the states are atomics, and the lists of pointers to them are behind mutexes.
unsafe impl Send for RequestPool {}
// SAFETY: as for Send.
unsafe impl Sync for RequestPool {}

impl Drop for RequestPool {
    fn drop(&mut self) {
        let chunks = self
            .chunks
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        for chunk in chunks.drain(..) {
            // SAFETY: leaked from a Box by `grow`, freed once. The window drops its pool only
            // when none of its operations is under way.
            drop(unsafe { Box::from_raw(chunk.as_ptr()) });
        }
    }
}

impl RequestPool {
    /// Takes a state without a failure; it counts the issuer.
    #[inline]
    pub(in crate::win) fn take(&self) -> NonNull<RequestState> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let state = free.pop().unwrap_or_else(|| self.grow(&mut free));
        // SAFETY: the state lies in a chunk of this pool, which keeps its chunks until it is
        // dropped.
        let fields = unsafe { state.as_ref() };
        fields.failed.store(0, Ordering::Relaxed);
        fields.pending.store(1, Ordering::Relaxed);
        fields.end.renew();
        state
    }

    /// Makes a chunk and returns one of its states; the others are free.
    #[cold]
    fn grow(&self, free: &mut Vec<NonNull<RequestState>>) -> NonNull<RequestState> {
        let chunk: Box<[RequestState; CHUNK]> =
            Box::new(std::array::from_fn(|_| RequestState::default()));
        let chunk = NonNull::from(Box::leak(chunk));
        let mut chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        chunks.push(chunk);
        let first = chunk.cast::<RequestState>();
        // SAFETY: the offsets stay inside the chunk's CHUNK states.
        free.extend((1..CHUNK).map(|index| unsafe { first.add(index) }));
        first
    }

    /// Frees the state of an operation that has ended.
    #[inline]
    pub(in crate::win) fn give_back(&self, state: NonNull<RequestState>) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(state);
    }
}
