//! The completion of a request, and the function that is called at completion, once.
//!
//! One word holds whether the request is complete, and the listener that waits for it. Completion and attachment
//! change the word by atomic operations, so each sees the other in either order. Completion then calls the attached
//! listener, and does not touch the request again.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

const NOBODY: usize = 0;
const COMPLETE: usize = 1;

/// A function to call at completion. The function runs on the thread that makes progress, and must
/// not wait.
#[repr(C, align(8))]
pub struct Listener {
    /// The function.
    pub call: unsafe extern "C" fn(*mut c_void),
    /// The argument of the callback.
    pub data: *mut c_void,
}

/// The request already has a listener; it can have one only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken;

/// The result of an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    /// The listener will be called.
    Later,
    /// The request was complete; the listener is not called.
    Complete,
}

/// The completion of one request.
#[derive(Default)]
pub struct Completion {
    word: AtomicUsize,
}

impl Completion {
    /// Prepares the completion for a new request. No other thread uses it yet.
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

    /// Completes the request, and calls its listener. Returns false if the request was complete
    /// before, because a request completes once.
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
        // SAFETY: the attaching code keeps the listener alive until its only call.
        let (call, data) = unsafe { ((*listener).call, (*listener).data) };
        // SAFETY: the attaching code guarantees that this function may be called with this data.
        unsafe { call(data) };
    }

    /// Has a function called at completion, on the thread that makes progress.
    ///
    /// # Safety
    /// The listener lives until it was called or detached; any thread may call it.
    pub unsafe fn attach(&self, listener: *const Listener) -> Result<Attached, Taken> {
        let told = listener.expose_provenance();
        // Release makes the listener visible to the completing thread. Acquire, if the exchange
        // failed, makes the operation's effects visible here.
        match self
            .word
            .compare_exchange(NOBODY, told, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => Ok(Attached::Later),
            Err(COMPLETE) => Ok(Attached::Complete),
            Err(_) => Err(Taken),
        }
    }

    /// Detaches a listener. False if the request is completing: the listener is or was called.
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
        // SAFETY: the data is the test's counter.
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
        // SAFETY: the listener and its data outlive the completion.
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
