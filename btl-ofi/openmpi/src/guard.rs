//! The one door through which Open MPI calls: a panic becomes a return value and a line, and never unwinds into C.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::log;

/// Runs `body`; should it panic, reports where and returns `otherwise`.
///
/// State that a panic may have left half-changed is unwind-safe enough here: after a panic the function fails, and a
/// failed operation ends the job (see [`rma`](crate::rma)).
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
