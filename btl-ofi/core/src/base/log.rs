//! Log lines for a host without its own `tracing` subscriber.
//!
//! Each door (the plugin, the Open MPI component) is a shared object with its own copy of `tracing`. The door adds a
//! sink here for each of its users. No line says whose transport it is about, so each sink gets every line.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use plugin_api::LogLevel;
use tracing::field::{Field, Visit};
use tracing::span;
use tracing::{Event, Level, Metadata, Subscriber};

/// Receives log lines. Any thread may call the receiver.
pub type Sink = Arc<dyn Fn(LogLevel, &str) + Send + Sync>;

static SINKS: RwLock<Vec<(LogLevel, Sink)>> = RwLock::new(Vec::new());
static INSTALLED: OnceLock<()> = OnceLock::new();

fn sinks() -> RwLockReadGuard<'static, Vec<(LogLevel, Sink)>> {
    SINKS.read().unwrap_or_else(PoisonError::into_inner)
}

/// A sink that receives lines until this value is dropped. A line that another thread logs at the time of the drop may
/// still arrive.
#[must_use = "dropping it ends the lines"]
pub struct Route(Sink);

/// Sends lines up to `level` to `sink`. Other sinks still receive these lines. A `tracing` subscriber that the process
/// already has stays in place and receives the lines instead.
pub fn route(level: LogLevel, sink: Sink) -> Route {
    INSTALLED.get_or_init(|| {
        receive(
            |level| sinks().iter().any(|(most, _)| level <= *most),
            |level, line| {
                // Copied, because a sink may log, or add and remove sinks.
                let sinks = sinks().clone();
                for (_, sink) in sinks.iter().filter(|(most, _)| level <= *most) {
                    sink(level, line);
                }
            },
        );
    });
    let mut sinks = SINKS.write().unwrap_or_else(PoisonError::into_inner);
    sinks.push((level, Arc::clone(&sink)));
    Route(sink)
}

impl Drop for Route {
    fn drop(&mut self) {
        let mut sinks = SINKS.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = sinks
            .iter()
            .position(|(_, sink)| Arc::ptr_eq(sink, &self.0))
        {
            sinks.remove(at);
        }
        if sinks.is_empty() {
            // A plugin that is unloaded frees the list, but not the list's memory, so the memory is
            // freed here.
            *sinks = Vec::new();
        }
    }
}

/// The log level for a value of `btl_ofi_verbose`.
pub fn level_of(verbose: i32) -> LogLevel {
    match verbose {
        ..=0 => LogLevel::Warn,
        1..=9 => LogLevel::Info,
        10.. => LogLevel::Debug,
    }
}

/// Sends this library's lines to `line`, if `is_enabled` is true for their level at the time. A `tracing` subscriber that the
/// process already has stays in place and receives the lines instead.
pub fn receive(
    is_enabled: impl Fn(LogLevel) -> bool + Send + Sync + 'static,
    line: impl Fn(LogLevel, &str) + Send + Sync + 'static,
) {
    let _ = tracing::subscriber::set_global_default(Receiver { is_enabled, line });
}

struct Receiver<E, L> {
    is_enabled: E,
    line: L,
}

impl<E, L> Subscriber for Receiver<E, L>
where
    E: Fn(LogLevel) -> bool + Send + Sync + 'static,
    L: Fn(LogLevel, &str) + Send + Sync + 'static,
{
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        (self.is_enabled)(level_for(*metadata.level()))
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        (self.line)(level_for(*event.metadata().level()), &line.0);
    }

    // The transport opens no spans.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}

    // The interest of a callsite is not cached: the set of enabled lines changes.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> tracing::subscriber::Interest {
        tracing::subscriber::Interest::sometimes()
    }
}

fn level_for(level: Level) -> LogLevel {
    match level {
        Level::ERROR => LogLevel::Error,
        Level::WARN => LogLevel::Warn,
        Level::INFO => LogLevel::Info,
        _ => LogLevel::Debug,
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a String cannot fail.
        let _ = if field.name() == "message" {
            write!(self.0, "{value:?}")
        } else {
            write!(self.0, " {}={value:?}", field.name())
        };
    }
}

/// The lines up to [`LogLevel::Info`] that `run` logs on this thread.
#[cfg(test)]
pub(crate) fn captured(run: impl FnOnce()) -> Vec<String> {
    let lines: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&lines);
    let receiver = Receiver {
        is_enabled: |level| level <= LogLevel::Info,
        line: move |_, line: &str| kept.lock().unwrap().push(line.to_owned()),
    };
    tracing::subscriber::with_default(receiver, run);
    std::mem::take(&mut *lines.lock().unwrap())
}
