//! Failures that no completion callback reports.

use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use plugin_api::{Endpoint, ErrorFlags, Module, Status};

use super::text;

/// A peer, an operation without callback, or the whole module failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The process concerned; none when it is the whole module.
    pub proc: Option<u64>,
    /// Whether the module can no longer be used.
    pub fatal: bool,
    /// The code.
    pub status: Status,
    /// The transport's own words; may be empty.
    pub info: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.proc {
            Some(proc) => write!(f, "process {proc}: {}", self.status)?,
            None => write!(f, "transport: {}", self.status)?,
        }
        if !self.info.is_empty() {
            write!(f, ": {}", self.info)?;
        }
        Ok(())
    }
}

/// What `register_error`'s context points to.
pub(super) struct Listener(pub(super) Box<dyn Fn(Failure) + Send + Sync>);

/// The function handed to `register_error`.
pub(super) unsafe extern "C" fn report(
    _module: *mut Module,
    flags: u32,
    endpoint: *mut Endpoint,
    proc: u64,
    status: i32,
    info: *const c_char,
    context: *mut c_void,
) {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the context is the Listener given to register_error; the transport keeps it
        // until the module is finalised.
        let listener = unsafe { &*context.cast::<Listener>() };
        let failure = Failure {
            proc: (!endpoint.is_null()).then_some(proc),
            fatal: ErrorFlags::from_bits_truncate(flags).contains(ErrorFlags::FATAL),
            status: Status(status),
            // SAFETY: the contract makes `info` NULL or NUL-terminated and borrowed for this call.
            info: unsafe { text(info) },
        };
        (listener.0)(failure);
    }));
    if outcome.is_err() {
        tracing::error!("the host's error callback panicked");
    }
}
