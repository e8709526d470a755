//! Panics in code that the fast paths call.

use std::panic::{AssertUnwindSafe, catch_unwind};

use plugin_api::Status;

/// Runs code that may panic (callbacks, cold paths) for the fast path, whose doors do not catch panics. The
/// panic hook reports the panic; the caller gets [`Status::FATAL`].
pub(crate) fn guarded(call: impl FnOnce() -> Status) -> Status {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(status) => status,
        Err(_) => Status::FATAL,
    }
}
