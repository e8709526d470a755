//! Lines of this component, through Open MPI's output stream.

use std::sync::atomic::{AtomicI32, Ordering};

use crate::log;

/// `osc_ofi_rs_verbose`. Relaxed accesses suffice: no other data depends on the value.
static VERBOSITY: AtomicI32 = AtomicI32::new(0);

/// Writes one line.
#[cold]
pub(crate) fn line(text: &str) {
    log::write(c"osc/ofi_rs", text);
}

/// Writes a line when `osc_ofi_rs_verbose` is at least `level`.
pub(crate) fn verbose(level: i32, text: impl FnOnce() -> String) {
    if verbosity() >= level {
        line(&text());
    }
}

/// The value of `osc_ofi_rs_verbose`.
pub(crate) fn verbosity() -> i32 {
    VERBOSITY.load(Ordering::Relaxed)
}

/// Sets the value of `osc_ofi_rs_verbose`.
pub(crate) fn set_verbosity(verbosity: i32) {
    VERBOSITY.store(verbosity, Ordering::Relaxed);
}
