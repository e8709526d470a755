//! Conditions that requests signal when they complete.

use std::ffi::c_void;

use osc_engine::door::{Attached, Completion, Listener};
use osc_engine::win::{Request, WinError};

use super::cond::{Cond, Misuse};
use super::runtime;

/// Why nothing could be attached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The condition refuses.
    #[error(transparent)]
    Misuse(#[from] Misuse),
    /// The request refuses: it signals something else already ([`WinError::Taken`]), or the thread level does not allow the
    /// call ([`WinError::Level`]).
    #[error(transparent)]
    Request(#[from] WinError),
}

/// Signals a condition for a request that it was attached to.
unsafe extern "C" fn signal_attached(cond: *mut c_void) {
    // SAFETY: the attaching code keeps the condition until it has been signalled.
    let cond = unsafe { &*cond.cast_const().cast::<Cond>() };
    if let Err(misuse) = cond.raise_attached() {
        runtime::report("a completed request", misuse);
    }
}

/// What signals a condition.
pub(super) fn signals(cond: &Cond) -> Listener {
    Listener {
        call: signal_attached,
        data: std::ptr::from_ref(cond).cast_mut().cast(),
    }
}

/// A listener that goes when it was called.
unsafe extern "C" fn signal_once(listener: *mut c_void) {
    // SAFETY: made by `attach`, and called once.
    let listener = unsafe { Box::from_raw(listener.cast::<(Listener, *mut c_void)>()) };
    // SAFETY: as the caller of `attach` vouches.
    unsafe { signal_attached(listener.1) };
}

/// Has a condition signalled when a request's operation is complete, or at once if it is. The request is
/// still to be ended by [`Request::wait`] or [`Request::test`], which then do not block.
/// One condition or event at a time: [`WinError::Taken`].
///
/// # Safety
/// The condition stays where it is until it has been signalled.
pub unsafe fn attach(request: &Request<'_>, cond: &Cond) -> Result<(), AttachError> {
    cond.attach()?;
    let listener = Listener {
        call: signal_once,
        data: std::ptr::null_mut(),
    };
    let listener = Box::into_raw(Box::new((
        listener,
        std::ptr::from_ref(cond).cast_mut().cast::<c_void>(),
    )));
    // SAFETY: made above, and not attached yet; the caller vouches for the condition.
    let attached = unsafe {
        (*listener).0.data = listener.cast();
        request.attach(&raw const (*listener).0)
    };
    if let Ok(Some(())) = attached {
        return Ok(());
    }
    cond.detach();
    // SAFETY: made above, and attached nowhere.
    drop(unsafe { Box::from_raw(listener) });
    attached?;
    Ok(super::signal(cond)?)
}

/// Attaches a condition that stays where it is. `None`: something of the program's is attached.
///
/// # Safety
/// Condition and listener stay until the condition was signalled or detached.
pub(super) unsafe fn attach_own(
    completion: &Completion,
    cond: &Cond,
    listener: &Listener,
) -> Option<Attached> {
    cond.attach().ok()?;
    // SAFETY: the caller vouches for the listener.
    let attached = unsafe { completion.attach(listener) }.ok();
    if attached != Some(Attached::Later) {
        cond.detach();
    }
    attached
}

/// Takes a condition off again. False when the request is completing: the signal comes, or came.
pub(super) fn detach_own(completion: &Completion, cond: &Cond, listener: &Listener) -> bool {
    let detached = completion.detach(listener);
    if detached {
        cond.detach();
    }
    detached
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_signalled_before_or_after() {
        let (completion, cond) = (Completion::default(), Cond::new());
        let listener = signals(&cond);
        // SAFETY: the condition outlives the completion.
        let attach = || unsafe { attach_own(&completion, &cond, &listener) };
        assert_eq!(attach(), Some(Attached::Later));
        assert!(cond.is_attached());
        assert_eq!(attach(), None);
        assert!(completion.complete());
        assert!(!cond.is_attached());
        assert_eq!(cond.raise(), Err(Misuse::TwoSignals));
        assert_eq!(attach(), Some(Attached::Complete));
        assert!(!cond.is_attached());
    }

    #[test]
    fn a_detached_condition_is_left_alone() {
        let (completion, cond) = (Completion::default(), Cond::new());
        let listener = signals(&cond);
        // SAFETY: the condition outlives the completion.
        unsafe { attach_own(&completion, &cond, &listener) }.unwrap();
        assert!(detach_own(&completion, &cond, &listener));
        assert!(completion.complete());
        assert!(!detach_own(&completion, &cond, &listener));
        assert_eq!(cond.raise(), Ok(()));
    }
}
