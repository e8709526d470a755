//! The end of a request: what is done when it completes, once.
//!
//! One word says whether the request is complete, and who wants to know: nobody, a condition, or a
//! function. Completion swaps the word, so that it and an attachment see each other whatever comes first; what was attached
//! is then called, and the completing side does not touch the request again.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::cond::{Cond, Misuse};
use super::level::LevelError;

const NOBODY: usize = 0;
const COMPLETE: usize = 1;
/// The word is the address of a [`Listener`] plus this.
const LISTENER: usize = 2;

/// A function to call at completion. It runs on whatever thread makes progress, and must not wait.
#[repr(C, align(8))]
pub(crate) struct Listener {
    pub(crate) call: unsafe extern "C" fn(*mut c_void),
    pub(crate) data: *mut c_void,
}

/// Why nothing could be attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The request signals something else already.
    #[error("the request has a condition or an event already; it signals one")]
    Taken,
    /// The condition refuses.
    #[error(transparent)]
    Misuse(#[from] Misuse),
    /// The thread level provided does not allow the call to this thread.
    #[error(transparent)]
    Level(#[from] LevelError),
}

/// What became of an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attached {
    /// It will be called.
    Later,
    /// The request was complete; nothing is called.
    Complete,
}

/// The end of one request.
#[derive(Default)]
pub(crate) struct Completion {
    word: AtomicUsize,
}

impl Completion {
    /// Makes it that of a new request. Nobody else uses it yet.
    #[inline]
    pub(crate) fn renew(&self) {
        self.word.store(NOBODY, Ordering::Relaxed);
    }

    /// Whether the request is complete.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        // Pairs with the swap in `complete`.
        self.word.load(Ordering::Acquire) == COMPLETE
    }

    /// Completes the request, and tells who wants to know. False when it was complete before: a
    /// request completes once.
    #[inline]
    pub(crate) fn complete(&self) -> bool {
        match self.word.swap(COMPLETE, Ordering::AcqRel) {
            NOBODY => true,
            COMPLETE => false,
            told => {
                self.tell(told);
                true
            }
        }
    }

    #[cold]
    fn tell(&self, told: usize) {
        if told & LISTENER != 0 {
            let listener = std::ptr::with_exposed_provenance::<Listener>(told & !LISTENER);
            // SAFETY: the attaching code keeps it alive until it was called, which is once.
            let (call, data) = unsafe { ((*listener).call, (*listener).data) };
            // SAFETY: as above.
            unsafe { call(data) };
        } else {
            let cond = std::ptr::with_exposed_provenance::<Cond>(told);
            // SAFETY: the attaching code keeps it alive until it has been signalled.
            super::signal_attached(unsafe { &*cond });
        }
    }

    fn attach(&self, told: usize) -> Result<Attached, AttachError> {
        // Release hands over what is attached; Acquire, when it failed, what the operation did.
        match self
            .word
            .compare_exchange(NOBODY, told, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => Ok(Attached::Later),
            Err(COMPLETE) => Ok(Attached::Complete),
            Err(_) => Err(AttachError::Taken),
        }
    }

    /// Has a condition signalled at completion.
    ///
    /// # Safety
    /// The condition stays until it has been signalled or detached.
    pub(crate) unsafe fn attach_cond(&self, cond: &Cond) -> Result<Attached, AttachError> {
        cond.attach()?;
        let attached = self.attach(std::ptr::from_ref(cond).expose_provenance());
        if attached != Ok(Attached::Later) {
            cond.detach();
        }
        attached
    }

    /// Has a function called at completion, on whatever thread makes progress.
    ///
    /// # Safety
    /// The listener stays until it was called; it may be called from any thread.
    pub(crate) unsafe fn attach_listener(
        &self,
        listener: *const Listener,
    ) -> Result<Attached, AttachError> {
        self.attach(listener.expose_provenance() | LISTENER)
    }

    /// Takes a condition off again. False when the request is completing: the signal comes, or came.
    pub(crate) fn detach_cond(&self, cond: &Cond) -> bool {
        let address = std::ptr::from_ref(cond).addr();
        let detached = self
            .word
            .compare_exchange(address, NOBODY, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok();
        if detached {
            cond.detach();
        }
        detached
    }
}

// The low bits of the addresses are free for the marks above.
const _: () = assert!(align_of::<Cond>() > LISTENER && align_of::<Listener>() > LISTENER);

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn a_request_completes_once() {
        let completion = Completion::default();
        assert!(!completion.is_complete());
        assert!(completion.complete());
        assert!(completion.is_complete());
        assert!(!completion.complete());
        completion.renew();
        assert!(!completion.is_complete());
    }

    #[test]
    fn a_condition_is_signalled_before_or_after() {
        let (completion, cond) = (Completion::default(), Cond::new());
        // SAFETY: the condition outlives the completion.
        let attached = unsafe { completion.attach_cond(&cond) };
        assert_eq!(attached, Ok(Attached::Later));
        assert!(cond.is_attached());
        // SAFETY: as above.
        let again = unsafe { completion.attach_cond(&cond) };
        assert_eq!(again, Err(AttachError::Taken));
        assert!(completion.complete());
        assert!(!cond.is_attached());
        assert_eq!(cond.raise(), Err(Misuse::TwoSignals));
        // SAFETY: as above.
        let late = unsafe { completion.attach_cond(&cond) };
        assert_eq!(late, Ok(Attached::Complete));
        assert!(!cond.is_attached());
    }

    #[test]
    fn a_detached_condition_is_left_alone() {
        let (completion, cond) = (Completion::default(), Cond::new());
        // SAFETY: the condition outlives the completion.
        unsafe { completion.attach_cond(&cond) }.unwrap();
        assert!(completion.detach_cond(&cond));
        assert!(completion.complete());
        assert!(!completion.detach_cond(&cond));
        assert_eq!(cond.raise(), Ok(()));
    }

    unsafe extern "C" fn count(data: *mut c_void) {
        // SAFETY: the test's counter.
        unsafe { &*data.cast::<AtomicU32>() }.fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn a_listener_is_called_once() {
        let calls = AtomicU32::new(0);
        let listener = Listener {
            call: count,
            data: (&raw const calls).cast_mut().cast(),
        };
        let completion = Completion::default();
        // SAFETY: both outlive the completion.
        let attached = unsafe { completion.attach_listener(&listener) };
        assert_eq!(attached, Ok(Attached::Later));
        completion.complete();
        completion.complete();
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }
}
