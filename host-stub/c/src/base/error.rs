//! Codes, the text of the last error, and the guard around every function.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use host::JobError;
use host::comm::CommError;
use host::crt::{AttachError, HooksError, LevelError, Misuse};
use host::win::{FreeError, WinError};

/// The call succeeded.
pub const HOST_SUCCESS: c_int = 0;
/// An argument is wrong; the call had no effect.
pub const HOST_ERR_ARG: c_int = -1;
/// The job, window, request or condition is not in a state for the call, which had no effect.
pub const HOST_ERR_STATE: c_int = -2;
/// The process could not join the job, or the job failed.
pub const HOST_ERR_JOB: c_int = -3;
/// The call does not fit the window or its epoch; nothing was sent.
pub const HOST_ERR_WIN: c_int = -4;
/// The thread level provided does not allow the call to this thread.
pub const HOST_ERR_LEVEL: c_int = -5;
/// The transport failed to execute an operation that was sent.
pub const HOST_ERR_TRANSPORT: c_int = -6;
/// The hooks of a tasking runtime do not do what they claim.
pub const HOST_ERR_HOOKS: c_int = -7;
/// Two consecutive waits, or signals, of a condition; the condition is unchanged.
pub const HOST_ERR_MISUSE: c_int = -8;
/// A bug of the host.
pub const HOST_ERR_PANIC: c_int = -9;
/// A communicator's creation or a collective failed, or the ranks made different calls.
pub const HOST_ERR_COMM: c_int = -10;

/// An error for C: its code and text.
pub(crate) struct Error {
    code: c_int,
    pub(crate) text: String,
}

impl Error {
    pub(crate) fn new(code: c_int, text: impl Into<String>) -> Error {
        Error {
            code,
            text: text.into(),
        }
    }

    pub(crate) fn argument(call: &str, what: &str) -> Error {
        Error::new(HOST_ERR_ARG, format!("{call}: {what}"))
    }
}

pub(crate) type Result<T = ()> = std::result::Result<T, Error>;

impl From<JobError> for Error {
    fn from(error: JobError) -> Error {
        Error::new(HOST_ERR_JOB, error.to_string())
    }
}

impl From<Box<WinError>> for Error {
    fn from(error: Box<WinError>) -> Error {
        let code = match &*error {
            WinError::Level(_) => HOST_ERR_LEVEL,
            WinError::Transport { .. } | WinError::Registration { .. } => HOST_ERR_TRANSPORT,
            WinError::Job { .. } | WinError::Creation { .. } => HOST_ERR_JOB,
            WinError::Layer { code, .. } => *code,
            WinError::Taken => HOST_ERR_STATE,
            _ => HOST_ERR_WIN,
        };
        Error::new(code, error.to_string())
    }
}

impl From<CommError> for Error {
    fn from(error: CommError) -> Error {
        let code = match &error {
            CommError::BadArgument { .. } | CommError::InvalidOperation { .. } => HOST_ERR_ARG,
            CommError::Freed { .. } => HOST_ERR_STATE,
            CommError::Level(_) => HOST_ERR_LEVEL,
            CommError::Peer { .. } | CommError::Job { .. } => HOST_ERR_JOB,
            CommError::Registration { .. } => HOST_ERR_TRANSPORT,
            CommError::Layer { code, .. } => *code,
            _ => HOST_ERR_COMM,
        };
        Error::new(code, error.to_string())
    }
}

impl From<FreeError> for Error {
    fn from(error: FreeError) -> Error {
        error.error.into()
    }
}

impl From<LevelError> for Error {
    fn from(error: LevelError) -> Error {
        Error::new(HOST_ERR_LEVEL, error.to_string())
    }
}

impl From<Misuse> for Error {
    fn from(error: Misuse) -> Error {
        let code = match error {
            Misuse::TwoWaits | Misuse::TwoSignals => HOST_ERR_MISUSE,
            Misuse::Level(_) => HOST_ERR_LEVEL,
            _ => HOST_ERR_STATE,
        };
        Error::new(code, error.to_string())
    }
}

impl From<AttachError> for Error {
    fn from(error: AttachError) -> Error {
        match error {
            AttachError::Misuse(misuse) => misuse.into(),
            AttachError::Request(error) => error.into(),
            other => Error::new(HOST_ERR_STATE, other.to_string()),
        }
    }
}

impl From<HooksError> for Error {
    fn from(error: HooksError) -> Error {
        Error::new(HOST_ERR_HOOKS, error.to_string())
    }
}

thread_local! {
    static TEXT: RefCell<CString> = RefCell::default();
}

/// Keeps an error's text, and returns its code. This function is not inlined: a caller may have waited as a task
/// and continued on another thread, and the compiler could have kept the address of the former thread's
/// variable.
#[cold]
#[inline(never)]
pub(crate) fn keep(error: &Error) -> c_int {
    // Only a text that quotes foreign bytes can contain a zero byte.
    let text = CString::new(error.text.replace('\0', " ")).unwrap_or_default();
    // The variable may be gone while the thread ends.
    let _ = TEXT.try_with(|kept| *kept.borrow_mut() = text);
    error.code
}

/// The text that [`keep`] kept last on this thread, for errors that a layer passes on.
pub(crate) fn last_text() -> String {
    TEXT.try_with(|kept| kept.borrow().to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Runs a function of the library for C.
#[inline]
pub(crate) fn guarded(run: impl FnOnce() -> Result) -> c_int {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => HOST_SUCCESS,
        Ok(Err(error)) => keep(&error),
        Err(_) => keep(&Error::new(
            HOST_ERR_PANIC,
            "a bug of the host; stderr says more",
        )),
    }
}

/// The text of the last error of this thread, valid until its next one; empty if there was none.
#[unsafe(no_mangle)]
pub extern "C" fn host_error_text() -> *const c_char {
    TEXT.try_with(|kept| kept.borrow().as_ptr())
        .unwrap_or(c"".as_ptr())
}
