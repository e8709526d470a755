//! The guard of every ABI function: a panic never unwinds into the host. Only the fast paths of operations, which do
//! not unwind, run without it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use plugin_api::Status;

/// Runs a function of the ABI. A panic is a bug of the plugin: it is logged, and the host gets [`Status::FATAL`]. The
/// call may have stopped halfway, so the host should close the module.
#[inline]
pub(crate) fn guarded(name: &'static str, call: impl FnOnce() -> Status) -> Status {
    // Unwind-safe: after a panic the plugin reads only state under its own locks.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(status) => status,
        Err(payload) => panicked(name, payload.as_ref()),
    }
}

/// Marks an unused argument as used, so that the compiler still passes it. A caller that forwards all of its arguments
/// unchanged can then jump to the slow path (a tail call) instead of calling it.
#[inline(always)]
pub(crate) fn use_argument<A>(argument: A) {
    std::hint::black_box(argument);
}

#[cold]
#[inline(never)]
fn panicked(name: &'static str, payload: &(dyn std::any::Any + Send)) -> Status {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    tracing::error!("{name} panicked: {text}; close this module");
    Status::FATAL
}

/// [`guarded`] for a function of an object. An object that is NULL is [`Status::BAD_PARAM`], and so is another argument for
/// which the call returns `None`.
#[inline]
pub(crate) fn called<O>(
    name: &'static str,
    object: Option<O>,
    call: impl FnOnce(O) -> Option<Status>,
) -> Status {
    guarded(name, || object.and_then(call).unwrap_or(Status::BAD_PARAM))
}
