//! The guard of the functions that Open MPI calls: a panic becomes a return value and a log line, and never unwinds into C.
//! The fast paths of operations have no guard, because they do not unwind.

use std::any::Any;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use plugin_api::Status;

use crate::log;

/// Runs `body`. If `body` panics, logs the panic and returns `otherwise`.
///
/// Unwind safety: a panic may leave state half changed, but the function then fails. A panic in an operation also ends the job
/// (`entries::call::operation`).
#[inline]
pub(crate) fn guarded<T>(function: &str, otherwise: T, body: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => value,
        Err(payload) => {
            report(function, payload.as_ref());
            otherwise
        }
    }
}

/// [`guarded`] for a function of an object that returns a status. An object that is NULL is [`Status::BAD_PARAM`], and so is
/// another argument for which the body returns `None`.
#[inline]
pub(crate) fn called<O>(
    function: &str,
    object: Option<O>,
    body: impl FnOnce(O) -> Option<Status>,
) -> c_int {
    let body = || object.and_then(body).unwrap_or(Status::BAD_PARAM);
    guarded(function, Status::ERROR, body).0
}

/// Marks an unused argument as used, so that the compiler still passes it (see `quick_entry`).
#[inline(always)]
pub(crate) fn use_argument<A>(argument: A) {
    std::hint::black_box(argument);
}

#[cold]
#[inline(never)]
fn report(function: &str, payload: &(dyn Any + Send)) {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without text");
    log::line(&format!(
        "{function} failed on an internal error: {text}; please report this"
    ));
}
