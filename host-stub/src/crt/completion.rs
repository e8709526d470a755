//! Conditions that requests signal when they complete.

use std::ffi::c_void;

use osc_engine::door::{Attached, Completion, Listener};
use osc_engine::win::{Request, WinError};

use super::cond::{Cond, Misuse};
use super::runtime;

/// The reason why a condition could not be attached to a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The condition refuses.
    #[error(transparent)]
    Misuse(#[from] Misuse),
    /// The request refuses: another condition or event is attached ([`WinError::Taken`]), or the thread level does not
    /// allow the call ([`WinError::Level`]).
    #[error(transparent)]
    Request(#[from] Box<WinError>),
}

/// Signals the condition that was attached to a request.
unsafe extern "C" fn signal_attached(cond: *mut c_void) {
    // SAFETY: the attaching code keeps the condition until the condition has been signalled.
    let cond = unsafe { &*cond.cast_const().cast::<Cond>() };
    if let Err(misuse) = cond.raise_attached() {
        runtime::report("a completed request", misuse);
    }
}

/// A listener that signals `cond`.
pub(super) fn signals(cond: &Cond) -> Listener {
    Listener {
        call: signal_attached,
        data: std::ptr::from_ref(cond).cast_mut().cast(),
    }
}

/// Signals the condition and frees the listener.
unsafe extern "C" fn signal_once(listener: *mut c_void) {
    // SAFETY: `attach` made the listener, which is called once.
    let listener = unsafe { Box::from_raw(listener.cast::<(Listener, *mut c_void)>()) };
    // SAFETY: the caller of `attach` guarantees that the condition lives until this signal.
    unsafe { signal_attached(listener.1) };
}

/// Attaches a condition to a request: the completion of the request's operation signals the condition.
/// If the operation is already complete, the call signals at once. The caller still ends the request by
/// [`Request::wait`] or [`Request::test`], which do not block after the signal. A request accepts one
/// condition or event at a time; otherwise the error is [`WinError::Taken`].
///
/// # Safety
/// The condition does not move until it has been signalled.
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
    // SAFETY: the listener was made above and is not attached yet; the caller guarantees that the
    // condition stays.
    let attached = unsafe {
        (*listener).0.data = listener.cast();
        request.attach(&raw const (*listener).0)
    };
    if let Ok(Some(())) = attached {
        return Ok(());
    }
    cond.detach();
    // SAFETY: the listener was made above and is attached nowhere.
    drop(unsafe { Box::from_raw(listener) });
    attached?;
    Ok(super::signal(cond)?)
}

/// Attaches a condition that does not move. `None`: the program has already attached a condition or
/// event.
///
/// # Safety
/// Condition and listener stay until the condition is signalled or detached.
pub(super) unsafe fn attach_own(
    completion: &Completion,
    cond: &Cond,
    listener: &Listener,
) -> Option<Attached> {
    cond.attach().ok()?;
    // SAFETY: the caller guarantees that the listener stays.
    let attached = unsafe { completion.attach(listener) }.ok();
    if attached != Some(Attached::Later) {
        cond.detach();
    }
    attached
}

/// Detaches a condition. False if the request is already completing: the signal has come, or will
/// come.
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
