//! Requests: operations that can be waited for one by one.
//!
//! Their states come from a pool of the window that grows by chunks and is reused, so a request
//! costs no allocation once as many were under way before.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use plugin_api::Status;

use super::error::{WinError, WinResult};
use super::link::Link;
use super::peer::Peer;
use super::pending::Pending;
use super::window::Window;
use crate::crt::{Completion, Engine, Told};

/// The last step of an operation: gets its first failure, or 0, and says what came of all of it.
pub(super) type LastStep = Box<dyn FnOnce(i32) -> i32 + Send>;

/// What remains to be done when all pieces of an operation have ended, before it is complete.
struct Rest {
    step: LastStep,
    /// Whether the call was refused, so that the step sees a failure and its caller knows already.
    refused: AtomicBool,
    /// Of an operation without a request: whose state it is, and which flush tells of its failure.
    unasked: Option<(NonNull<RequestPool>, NonNull<Pending>)>,
}

/// What the callbacks of one request count. Its address is their `data`.
#[derive(Default)]
pub(super) struct RequestState {
    /// Pieces under way, plus one while the request is being issued.
    pending: AtomicUsize,
    failed: AtomicI32,
    end: Completion,
    /// Null where nothing remains to be done. Owned by the state while the operation is under way.
    rest: AtomicPtr<Rest>,
}

impl RequestState {
    #[inline]
    pub(super) fn begin(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a piece ended. The request may be gone when this returns.
    #[inline]
    pub(super) fn finish(&self, status: i32) {
        if status < 0 {
            // An earlier failure is kept.
            let _ = self
                .failed
                .compare_exchange(0, status, Ordering::Relaxed, Ordering::Relaxed);
        }
        // Release: what each piece did comes before the end, which the last one makes.
        match self.pending.fetch_sub(1, Ordering::AcqRel) {
            1 if self.rest.load(Ordering::Relaxed).is_null() => {
                self.end.complete();
            }
            1 => self.take_last_step(),
            0 => self.finished_twice(),
            _ => {}
        }
    }

    /// Does what remains, once all pieces have ended.
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
                // SAFETY: both belong to the window, which lives: the piece that ended last is still counted for
                // its target, or else the issuing call is not over.
                let (pool, pending) = unsafe { (pool.as_ref(), pending.as_ref()) };
                if outcome < 0 {
                    pending.fail(Status(outcome));
                }
                pool.give_back(NonNull::from(self));
            }
        }
    }

    /// Notes that the call is refused: what remains is then told of a failure, which nobody else hears of.
    #[cold]
    fn refuse(&self) {
        // SAFETY: the issuer still counts, so what remains was not taken.
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

    /// Gives a fresh state something to do when all pieces have ended.
    fn leave(&self, step: LastStep, unasked: Option<(NonNull<RequestPool>, NonNull<Pending>)>) {
        let rest = Box::new(Rest {
            step,
            refused: AtomicBool::new(false),
            unasked,
        });
        self.rest.store(Box::into_raw(rest), Ordering::Relaxed);
    }

    #[inline]
    fn is_done(&self) -> bool {
        self.end.is_complete()
    }
}

/// Issues an operation that needs a last step before it is complete, and of which nobody waits for the end alone:
/// a failure goes to the target's next flush. Returns while the operation is under way.
pub(super) fn issue_unasked(
    window: &Window,
    peer: &Peer,
    last: LastStep,
    issue: impl FnOnce(&RequestState) -> WinResult<()>,
) -> WinResult<()> {
    let pool = &window.parts.requests;
    let state = pool.take();
    // SAFETY: the pool keeps the state as long as the window.
    let fields = unsafe { state.as_ref() };
    let unasked = (NonNull::from(pool), NonNull::from(&peer.transfers));
    fields.leave(last, Some(unasked));
    let issued = issue(fields);
    if issued.is_err() {
        fields.refuse();
    }
    // The state may be another operation's after this.
    fields.finish(0);
    window.link.engine().issued();
    issued
}

const CHUNK: usize = 64;

/// Where the states lie. Apart from the pool, for the progress thread, which has their futures look again
/// when it meets trouble.
#[derive(Default)]
struct Chunks(Mutex<Vec<NonNull<[RequestState; CHUNK]>>>);

// SAFETY: the states are atomics, and the list of pointers to them is behind the mutex.
unsafe impl Send for Chunks {}
// SAFETY: as for Send.
unsafe impl Sync for Chunks {}

impl Told for Chunks {
    fn look_again(&self) {
        let chunks = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for chunk in chunks {
            // SAFETY: chunks stay as long as this.
            for state in unsafe { chunk.as_ref() } {
                state.end.look_again();
            }
        }
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        let chunks = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        for chunk in chunks.drain(..) {
            // SAFETY: leaked from a Box by `take`, freed once. The window drops its pool only
            // when none of its operations is under way.
            drop(unsafe { Box::from_raw(chunk.as_ptr()) });
        }
    }
}

/// The request states of a window.
pub(super) struct RequestPool {
    /// Those that no request uses.
    free: Mutex<Vec<NonNull<RequestState>>>,
    chunks: Arc<Chunks>,
}

// SAFETY: the states are atomics, and the list of pointers to them is behind the mutex.
unsafe impl Send for RequestPool {}
// SAFETY: as for Send.
unsafe impl Sync for RequestPool {}

impl RequestPool {
    pub(super) fn new(engine: &Engine) -> RequestPool {
        let chunks = Arc::new(Chunks::default());
        let told: Arc<dyn Told> = chunks.clone();
        engine.add_told(Arc::downgrade(&told));
        RequestPool {
            free: Mutex::default(),
            chunks,
        }
    }

    /// A state with no failure, that counts the issuer.
    fn take(&self) -> NonNull<RequestState> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let state = free.pop().unwrap_or_else(|| self.grow(&mut free));
        // SAFETY: the state lies in a chunk of this pool, which keeps them until it is dropped.
        let fields = unsafe { state.as_ref() };
        fields.failed.store(0, Ordering::Relaxed);
        fields.pending.store(1, Ordering::Relaxed);
        fields.end.renew();
        state
    }

    /// One of a chunk's new states; the others are free.
    #[cold]
    fn grow(&self, free: &mut Vec<NonNull<RequestState>>) -> NonNull<RequestState> {
        let chunk: Box<[RequestState; CHUNK]> =
            Box::new(std::array::from_fn(|_| RequestState::default()));
        let chunk = NonNull::from(Box::leak(chunk));
        let mut chunks = self.chunks.0.lock().unwrap_or_else(PoisonError::into_inner);
        chunks.push(chunk);
        let first = chunk.cast::<RequestState>();
        // SAFETY: the offsets stay inside the chunk's CHUNK states.
        free.extend((1..CHUNK).map(|index| unsafe { first.add(index) }));
        first
    }

    fn give_back(&self, state: NonNull<RequestState>) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(state);
    }
}

/// An operation under way. It is complete, at the origin and at the target, when
/// [`test`](Self::test) or [`wait`](Self::wait) says so; until then its buffers belong to it.
/// Dropping it waits, on whatever thread: the buffers are the program's again after that.
/// Should it have failed then, the next flush of the target tells.
#[must_use = "a request that is dropped at once waits for its operation"]
pub struct Request<'w> {
    window: &'w Window,
    state: Option<NonNull<RequestState>>,
    call: &'static str,
    rank: u32,
    /// Whether there was nothing to do, and nobody asked for the outcome yet.
    nothing: bool,
}

// SAFETY: the state is made of atomics in the window's pool, which outlives the borrow; any
// thread may end the request.
unsafe impl Send for Request<'_> {}
// SAFETY: as for Send; shared references give no access to the state.
unsafe impl Sync for Request<'_> {}

impl<'w> Request<'w> {
    /// Runs `issue` with a fresh state and makes a request of it, which takes the last step, if there is one, before it
    /// is complete.
    pub(super) fn issue(
        window: &'w Window,
        (call, rank): (&'static str, usize),
        last: Option<LastStep>,
        issue: impl FnOnce(&RequestState) -> WinResult<()>,
    ) -> WinResult<Request<'w>> {
        let state = window.parts.requests.take();
        let request = Request {
            window,
            state: Some(state),
            call,
            rank: rank as u32,
            nothing: false,
        };
        // SAFETY: the pool keeps the state as long as the window.
        let fields = unsafe { state.as_ref() };
        if let Some(step) = last {
            fields.leave(step, None);
        }
        let issued = issue(fields);
        if issued.is_err() {
            fields.refuse();
        }
        fields.finish(0);
        issued?;
        if !fields.is_done() {
            window.link.engine().issued();
        }
        Ok(request)
    }

    /// A request of an operation that needed nothing to be sent.
    pub(super) fn done(window: &'w Window, call: &'static str, rank: usize) -> Request<'w> {
        Request {
            window,
            state: None,
            call,
            rank: rank as u32,
            nothing: true,
        }
    }

    pub(super) fn link(&self) -> &'w Link {
        &self.window.link
    }

    /// The end of the request, unless it was ended or there was nothing to do.
    pub(super) fn completion(&self) -> Option<&'w Completion> {
        // SAFETY: the pool keeps the state as long as the window.
        self.state.map(|state| unsafe { &(*state.as_ptr()).end })
    }

    /// Whether its outcome was given to somebody. An operation that needed nothing to be sent is complete
    /// from the start, and ends like any other.
    pub fn is_ended(&self) -> bool {
        self.state.is_none() && !self.nothing
    }

    /// Whether the operation may still use its buffers.
    pub(crate) fn is_under_way(&self) -> bool {
        !self.is_over()
    }

    /// Whether the operation is complete.
    pub(super) fn is_over(&self) -> bool {
        self.completion().is_none_or(Completion::is_complete)
    }

    /// Ends a request whose operation is complete; gives its failure, once.
    pub(super) fn end_complete(&mut self) -> WinResult<()> {
        match self.state {
            Some(state) => self.end(state),
            None => {
                self.nothing = false;
                Ok(())
            }
        }
    }

    /// Progress for a future that nobody else makes progress for.
    pub(super) fn poll_progress(&self) -> WinResult<()> {
        let link = self.link();
        if link.progress(self.call)? == 0 {
            link.check(self.call)?;
        }
        Ok(())
    }

    /// Progresses, and says whether the operation is complete. Once it is, its failure is reported
    /// here, once; further calls say true.
    pub fn test(&mut self) -> WinResult<bool> {
        let _entered = self.window.link.enter("test")?;
        let Some(state) = self.state else {
            self.nothing = false;
            return Ok(true);
        };
        // SAFETY: the pool keeps the state as long as the window.
        let fields = unsafe { state.as_ref() };
        if !fields.is_done() {
            self.window.link.progress(self.call)?;
            if !fields.is_done() {
                return Ok(false);
            }
        } else {
            self.visit();
        }
        self.end(state).map(|()| true)
    }

    /// Progresses now and then. Where operations end at once, waits for them would never make progress,
    /// and who polls by them would never answer others.
    #[inline]
    pub(super) fn visit(&self) {
        let link = self.link();
        if !link.is_quiet() {
            // A failure is for a call that needs the progress.
            let _ = link.engine().progress();
        }
    }

    /// Gives the state of a complete request back, and says what came of it.
    fn end(&mut self, state: NonNull<RequestState>) -> WinResult<()> {
        self.state = None;
        // SAFETY: the pool keeps the state as long as the window.
        let failed = unsafe { state.as_ref() }.failed.load(Ordering::Relaxed);
        self.window.parts.requests.give_back(state);
        if failed < 0 {
            return Err(WinError::Transport {
                call: self.call,
                rank: self.rank as usize,
                status: Status(failed),
            });
        }
        Ok(())
    }

    /// Waits until the operation is complete. [`WinError::Level`]: this thread may not call; it is waited
    /// for all the same, as by dropping it.
    pub fn wait(mut self) -> WinResult<()> {
        self.settle()
    }

    /// As [`wait`](Self::wait), but the request stays with the caller, who keeps it open after
    /// [`WinError::Level`].
    pub fn settle(&mut self) -> WinResult<()> {
        let _entered = self.window.link.enter("wait")?;
        self.visit();
        self.finish()
    }

    /// Waits for every request; reports the first failure after all have ended.
    pub fn wait_all(requests: impl IntoIterator<Item = Request<'w>>) -> WinResult<()> {
        let mut outcome = Ok(());
        for request in requests {
            let result = request.wait();
            if outcome.is_ok() {
                outcome = result;
            }
        }
        outcome
    }

    /// Waits on any thread. Only with the operation's end are its buffers the caller's again, so that
    /// dropping a request asks for no thread level.
    fn finish(&mut self) -> WinResult<()> {
        let Some(state) = self.state else {
            self.nothing = false;
            return Ok(());
        };
        // SAFETY: the pool keeps the state as long as the window.
        let fields = unsafe { state.as_ref() };
        self.window.link.wait_request(self.call, &fields.end)?;
        self.end(state)
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        let Some(end) = self.completion() else {
            return;
        };
        end.detach_waker();
        if let Err(error) = self.finish() {
            // The state is not given back when the job failed: its callbacks may still come.
            tracing::warn!("a dropped request failed: {error}");
            // The next flush of the target tells who only looks at what calls return.
            if let WinError::Transport { rank, status, .. } = error
                && let Some(peer) = self.window.parts.peers.get(rank)
            {
                peer.transfers.fail(status);
            }
        }
    }
}
