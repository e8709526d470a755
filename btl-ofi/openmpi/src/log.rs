//! Log lines through Open MPI's output stream, which adds host and process; `mpirun` forwards them like Open MPI's own
//! lines.

use std::ffi::{CStr, CString};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI32, Ordering};

use btl_ofi::Transport;
use tracing::field::{Field, Visit};
use tracing::span;
use tracing::{Event, Level, Metadata, Subscriber};

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

/// Sets the verbosity and routes the transport's events to this log. Only the first call installs the receiver.
pub(crate) fn install(verbosity: i32) {
    VERBOSITY.store(verbosity, Ordering::Relaxed);
    // An error means that a receiver is installed. This receiver can only be ours, because the library has its own
    // copy of tracing.
    let _ = tracing::subscriber::set_global_default(Receiver);
}

/// Logs the transport's events by verbosity. Failures of peers and operations also reach the error callback, which
/// reports them at every verbosity.
struct Receiver;

fn needed(level: &Level) -> i32 {
    match *level {
        Level::ERROR | Level::WARN => 0,
        // 10 and not 1: the module logs the transport's INFO events itself.
        Level::INFO => 10,
        Level::DEBUG => 20,
        Level::TRACE => 100,
    }
}

impl Subscriber for Receiver {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        verbosity() >= needed(metadata.level())
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        line(&text.0);
    }

    // The transport opens no spans.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// An event's message and fields, in their order.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a String cannot fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(
                self.0,
                "{}{name}={value:?}",
                if self.0.is_empty() { "" } else { ", " }
            ),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}
