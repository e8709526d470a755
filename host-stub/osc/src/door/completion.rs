//! The end of a request: what is done when it completes, once.
//!
//! One word tells whether the request is complete, and who waits for it. Completion swaps the word, so that it and an
//! attachment see each other whatever comes first; what was attached is then called, and the completing side does not
//! touch the request again.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

const NOBODY: usize = 0;
const COMPLETE: usize = 1;

/// A function to call at completion. It runs on whatever thread makes progress, and must not wait.
#[repr(C, align(8))]
pub struct Listener {
    /// The function.
    pub call: unsafe extern "C" fn(*mut c_void),
    /// The argument of the callback.
    pub data: *mut c_void,
}

/// The request tells another listener already; it tells one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken;

/// The result of an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    /// It will be called.
    Later,
    /// The request was complete; nothing is called.
    Complete,
}

/// The end of one request.
#[derive(Default)]
pub struct Completion {
    word: AtomicUsize,
}

impl Completion {
    /// Prepares it for a new request. Nobody else uses it yet.
    #[inline]
    pub fn renew(&self) {
        self.word.store(NOBODY, Ordering::Relaxed);
    }

    /// Whether the request is complete.
    #[inline]
    pub fn is_complete(&self) -> bool {
        // Pairs with the swap in `complete`.
        self.word.load(Ordering::Acquire) == COMPLETE
    }

    /// Completes the request, and tells its waiter. False when it was complete before: a
    /// request completes once.
    #[inline]
    pub fn complete(&self) -> bool {
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
        let listener = std::ptr::with_exposed_provenance::<Listener>(told);
        // SAFETY: the attaching code keeps it alive until it was called, which is once.
        let (call, data) = unsafe { ((*listener).call, (*listener).data) };
        // SAFETY: as above.
        unsafe { call(data) };
    }

    /// Has a function called at completion, on whatever thread makes progress.
    ///
    /// # Safety
    /// The listener stays until it was called or detached; it may be called from any thread.
    pub unsafe fn attach(&self, listener: *const Listener) -> Result<Attached, Taken> {
        let told = listener.expose_provenance();
        // Release hands over what is attached; Acquire, when it failed, what the operation did.
        match self
            .word
            .compare_exchange(NOBODY, told, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => Ok(Attached::Later),
            Err(COMPLETE) => Ok(Attached::Complete),
            Err(_) => Err(Taken),
        }
    }

    /// Takes a listener off again. False when the request is completing: the call comes, or came.
    pub fn detach(&self, listener: *const Listener) -> bool {
        self.word
            .compare_exchange(
                listener.addr(),
                NOBODY,
                Ordering::Relaxed,
                Ordering::Relaxed,
            )
            .is_ok()
    }
}

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

    unsafe extern "C" fn count(data: *mut c_void) {
        // SAFETY: the test's counter.
        unsafe { &*data.cast::<AtomicU32>() }.fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn one_listener_is_called_once() {
        let calls = AtomicU32::new(0);
        let listener = Listener {
            call: count,
            data: (&raw const calls).cast_mut().cast(),
        };
        let completion = Completion::default();
        // SAFETY: both outlive the completion.
        let attach = || unsafe { completion.attach(&listener) };
        assert_eq!(attach(), Ok(Attached::Later));
        assert_eq!(attach(), Err(Taken));
        assert!(completion.detach(&listener));
        assert_eq!(attach(), Ok(Attached::Later));
        assert!(completion.complete());
        assert!(!completion.complete());
        assert!(!completion.detach(&listener));
        assert_eq!(attach(), Ok(Attached::Complete));
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }
}
