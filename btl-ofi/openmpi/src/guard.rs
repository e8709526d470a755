//! The guard of the functions that Open MPI calls: a panic becomes a return value and a log line, and never unwinds into C.
//! The fast paths of operations have no guard, because they do not unwind.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

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
