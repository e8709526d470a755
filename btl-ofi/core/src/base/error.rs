//! Error types, and the mapping from libfabric's error numbers to the statuses of the host's interface.

use std::ffi::{CStr, c_int};
use std::io;

use libfabric_sys as ffi;
use plugin_api::Status;

/// A call of libfabric, or of the system, that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call} returned -{code} ({})", describe(*code))]
pub struct CallError {
    /// C name of the call.
    pub call: &'static str,
    /// The error number, positive: an `errno` or an `FI_E*`. An error that is both an `errno` and an
    /// `FI_E*` has one value.
    pub code: i32,
}

impl CallError {
    /// The status of this error in the host's interface.
    pub fn status(&self) -> Status {
        status_of(self.code)
    }
}

impl From<CallError> for io::Error {
    /// The error keeps its kind and its message; the message names the call.
    fn from(error: CallError) -> io::Error {
        io::Error::new(io::Error::from_raw_os_error(error.code).kind(), error)
    }
}

/// Turns a libfabric return value into a result.
pub(crate) fn check(call: &'static str, rc: c_int) -> Result<(), CallError> {
    if rc >= 0 {
        Ok(())
    } else {
        Err(CallError { call, code: -rc })
    }
}

/// libfabric's text for an error number.
pub(crate) fn describe(code: i32) -> String {
    // SAFETY: fi_strerror accepts any number and returns a static string.
    let text = unsafe { ffi::fi_strerror(code) };
    if text.is_null() {
        return String::from("unknown error");
    }
    // SAFETY: fi_strerror returns a static NUL-terminated string.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// The status for a libfabric error number (positive).
pub(crate) fn status_of(code: i32) -> Status {
    const fn fi(code: u32) -> i32 {
        code as i32
    }
    const AGAIN: i32 = fi(ffi::FI_EAGAIN);
    const BUSY: i32 = fi(ffi::FI_EBUSY);
    const NOMEM: i32 = fi(ffi::FI_ENOMEM);
    const NOSPC: i32 = fi(ffi::FI_ENOSPC);
    const MFILE: i32 = fi(ffi::FI_EMFILE);
    const NOSYS: i32 = fi(ffi::FI_ENOSYS);
    const NOTSUPP: i32 = fi(ffi::FI_EOPNOTSUPP);
    const INVAL: i32 = fi(ffi::FI_EINVAL);
    const ACCES: i32 = fi(ffi::FI_EACCES);
    const PERM: i32 = fi(ffi::FI_EPERM);
    const KEY: i32 = fi(ffi::FI_EKEYREJECTED);
    const NOKEY: i32 = fi(ffi::FI_ENOKEY);
    const TIMEDOUT: i32 = fi(ffi::FI_ETIMEDOUT);
    const UNREACHED: [i32; 10] = [
        fi(ffi::FI_ENOTCONN),
        fi(ffi::FI_ECONNREFUSED),
        fi(ffi::FI_ECONNRESET),
        fi(ffi::FI_ECONNABORTED),
        fi(ffi::FI_EHOSTUNREACH),
        fi(ffi::FI_ENETUNREACH),
        fi(ffi::FI_ESHUTDOWN),
        // A provider cancels the requests that wait for a connection when the connection breaks. This
        // crate itself cancels nothing.
        libc::ECANCELED,
        libc::EPIPE,
        libc::ESRCH,
    ];
    match code {
        0 => Status::SUCCESS,
        AGAIN => Status::TEMP_OUT_OF_RESOURCE,
        BUSY => Status::RESOURCE_BUSY,
        NOMEM | NOSPC | MFILE => Status::OUT_OF_RESOURCE,
        NOSYS | NOTSUPP => Status::NOT_SUPPORTED,
        INVAL => Status::BAD_PARAM,
        ACCES | PERM | KEY | NOKEY => Status::PERM,
        TIMEDOUT => Status::TIMEOUT,
        c if UNREACHED.contains(&c) => Status::UNREACH,
        _ => Status::ERROR,
    }
}

/// Whether the error of an operation means that its peer is gone.
pub(crate) fn peer_is_gone(code: i32) -> bool {
    status_of(code) == Status::UNREACH
}

/// The error of a call that is not a data operation. The error displays as one line, except
/// [`NoProvider`](Self::NoProvider).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A libfabric call failed.
    #[error("{doing}: {source}")]
    Call {
        /// The purpose of the call.
        doing: String,
        /// The call and the error number.
        #[source]
        source: CallError,
    },
    /// No provider can be used; the message names the reason for each.
    #[error("no libfabric provider can be used{wanted}:\n{}", list(.refusals))]
    NoProvider {
        /// The lists that narrowed the choice, ready to print; may be empty.
        wanted: String,
        /// Provider and reason.
        refusals: Vec<(String, String)>,
    },
    /// The provider lacks a function that every provider of its kind must have.
    #[error("provider {provider}: the entry {entry} of its function tables is missing")]
    Incomplete {
        /// The provider.
        provider: String,
        /// The entry.
        entry: &'static str,
    },
    /// A peer's address blob cannot be used.
    #[error("address of process {proc}: {reason}")]
    Modex {
        /// The process.
        proc: u64,
        /// The defect.
        reason: String,
    },
    /// A value from the caller cannot be used.
    #[error("{what}: {reason}")]
    Invalid {
        /// Name of the value.
        what: &'static str,
        /// Why.
        reason: String,
    },
    /// A parameter cannot be used.
    #[error("parameter {name}: {reason}")]
    Parameter {
        /// The full name of the parameter or provider.
        name: String,
        /// Why.
        reason: String,
    },
    /// The object was made before this process was forked, and belongs to the parent.
    #[error(
        "this process is a child of fork; the transport belongs to process {owner}: open one of its own"
    )]
    Forked {
        /// Process id of the owner.
        owner: u32,
    },
    /// Memory is exhausted.
    #[error("out of memory for {0}")]
    OutOfMemory(&'static str),
}

fn list(refusals: &[(String, String)]) -> String {
    if refusals.is_empty() {
        return String::from("  libfabric offers none at all");
    }
    let lines: Vec<_> = refusals
        .iter()
        .map(|(p, why)| format!("  {p}: {why}"))
        .collect();
    lines.join("\n")
}

impl Error {
    /// The status in the host's interface.
    pub fn status(&self) -> Status {
        match self {
            Error::Call { source, .. } => source.status(),
            Error::NoProvider { .. } => Status::NOT_AVAILABLE,
            Error::Incomplete { .. } => Status::NOT_SUPPORTED,
            Error::Forked { .. } => Status::FATAL,
            Error::Modex { .. } => Status::UNREACH,
            Error::Invalid { .. } | Error::Parameter { .. } => Status::BAD_PARAM,
            Error::OutOfMemory(_) => Status::OUT_OF_RESOURCE,
        }
    }
}

/// Adds the purpose to a failed call.
pub(crate) trait Doing<T> {
    /// Names the purpose of the call.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> Doing<T> for Result<T, CallError> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|source| Error::Call {
            doing: what(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_become_statuses() {
        assert_eq!(
            status_of(ffi::FI_EAGAIN as i32),
            Status::TEMP_OUT_OF_RESOURCE
        );
        assert_eq!(status_of(ffi::FI_ENOMEM as i32), Status::OUT_OF_RESOURCE);
        assert_eq!(status_of(libc::EPIPE), Status::UNREACH);
        assert_eq!(status_of(12345), Status::ERROR);
    }

    #[test]
    fn a_system_call_keeps_its_name_and_kind() {
        let e = io::Error::from(CallError {
            call: "fallocate",
            code: libc::ENOSPC,
        });
        assert_eq!(e.kind(), io::ErrorKind::StorageFull);
        assert_eq!(
            e.to_string(),
            "fallocate returned -28 (No space left on device)"
        );
    }

    #[test]
    fn a_call_error_says_what_came_back() {
        let e = CallError {
            call: "fi_cq_open",
            code: ffi::FI_ENOMEM as i32,
        };
        assert_eq!(
            e.to_string(),
            "fi_cq_open returned -12 (Cannot allocate memory)"
        );
    }
}
