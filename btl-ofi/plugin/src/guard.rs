//! The one way into the plugin: nothing unwinds into the host. The quick way of operations, which does not
//! unwind, goes past it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use plugin_api::Status;

/// Runs a function of the ABI. A panic is a bug of ours: it is logged, and the host sees
/// [`Status::FATAL`]. What the call was working on may be half done, so the module should be closed.
#[inline]
pub(crate) fn guarded(name: &'static str, call: impl FnOnce() -> Status) -> Status {
    // Nothing of ours is looked at after a panic but what its own locks protect.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(status) => status,
        Err(payload) => panicked(name, payload.as_ref()),
    }
}

/// Names an argument that is of no use, so that it is passed all the same: a function that hands all of
/// its arguments on, as they lie, jumps instead of calling.
#[inline(always)]
pub(crate) fn kept<A>(argument: A) {
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

/// Gives back the value of an `Option`, or answers BAD_PARAM from the function around it. The hot
/// functions below check a handful of pointers each.
macro_rules! need {
    ($($value:expr),+) => { ($(match $value { Some(value) => value, None => return Status::BAD_PARAM }),+) };
}
pub(crate) use need;
