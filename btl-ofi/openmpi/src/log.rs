//! Log lines through Open MPI's output stream, which adds host and process; `mpirun` forwards them like Open MPI's own
//! lines.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicI32, Ordering};

use btl_ofi::Transport;
use btl_ofi::log::receive;
use plugin_api::LogLevel;

use crate::bindings as ffi;

/// `btl_ofi_verbose`. Relaxed accesses suffice: no other data depends on the value.
static VERBOSITY: AtomicI32 = AtomicI32::new(0);

/// Writes one line of the component btl.
#[cold]
pub(crate) fn line(text: &str) {
    write(c"btl/ofi_rs", text);
}

/// Writes one line to the process's default output stream.
#[cold]
pub(crate) fn write(component: &CStr, text: &str) {
    // A NUL inside the text would truncate the line.
    let Ok(text) = CString::new(text.replace('\0', " ")) else {
        return;
    };
    // SAFETY: stream 0 is Open MPI's default and is open while a component runs; each "%s" gets one NUL-terminated
    // string.
    unsafe { ffi::opal_output(0, c"%s: %s".as_ptr(), component.as_ptr(), text.as_ptr()) };
}

/// Writes a line when `btl_ofi_verbose` is at least `level`.
pub(crate) fn verbose(level: i32, text: impl FnOnce() -> String) {
    if verbosity() >= level {
        line(&text());
    }
}

/// The transport's counts as one log line.
pub(crate) fn counts(transport: &Transport) -> String {
    let offered = transport.capabilities();
    let stats = transport.stats();
    format!(
        "{} on {}: {} peers, {} registrations, {} operations posted, {} completed, {} failed, {} posts refused",
        offered.provider.to_string_lossy(),
        offered.domain.to_string_lossy(),
        stats.endpoints,
        stats.registrations,
        stats.posted,
        stats.completed,
        stats.failed,
        stats.again
    )
}

/// The value of `btl_ofi_verbose`.
pub(crate) fn verbosity() -> i32 {
    VERBOSITY.load(Ordering::Relaxed)
}

/// Sets the verbosity and routes the transport's events to this log. Only the first call installs the receiver. Failures of
/// peers and operations also reach the error callback, which reports them at every verbosity.
pub(crate) fn install(verbosity: i32) {
    VERBOSITY.store(verbosity, Ordering::Relaxed);
    receive(
        |level| self::verbosity() >= needed(level),
        |_, text| line(text),
    );
}

fn needed(level: LogLevel) -> i32 {
    match level {
        LogLevel::Error | LogLevel::Warn => 0,
        // 10 and not 1: the module logs the transport's lines of this level itself.
        LogLevel::Info => 10,
        LogLevel::Debug => 20,
    }
}
