//! Log lines. Each line goes to stderr, with the rank that logs it.

use std::fmt;

use mca_params::{Allowed, Declaration, Error, Kind, Level, Value};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use super::params::Params;

/// The amount that the host and its plugin log.
pub static VERBOSE: Declaration = Declaration::new("host_verbose", Kind::Int, Value::Int(1))
    .help("What goes to stderr: 0 errors, 1 also warnings, 2 also what was chosen and why, 3 everything")
    .level(Level::USER_BASIC)
    .allowed(Allowed::Range { min: 0, max: 3 });

/// Starts logging at the level of `host_verbose`. If `rank` is given, each line contains the rank.
/// A program that already logs keeps its own subscriber.
pub fn init(params: &Params, rank: Option<u32>) -> Result<(), Error> {
    let level = match params.declare(&VERBOSE)?.as_int() {
        Some(0) => LevelFilter::ERROR,
        Some(2) => LevelFilter::INFO,
        Some(3) => LevelFilter::DEBUG,
        _ => LevelFilter::WARN,
    };
    // An error here means that the program has already set a subscriber.
    let _ = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .event_format(Line { rank })
        .try_init();
    Ok(())
}

/// A line of the form `host-stub[2] warning: text`.
struct Line {
    rank: Option<u32>,
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = match *event.metadata().level() {
            tracing::Level::ERROR => "error",
            tracing::Level::WARN => "warning",
            tracing::Level::INFO => "info",
            _ => "debug",
        };
        write!(writer, "host-stub")?;
        if let Some(rank) = self.rank {
            write!(writer, "[{rank}]")?;
        }
        write!(writer, " {level}: ")?;
        let spans = context
            .event_scope()
            .into_iter()
            .flat_map(|s| s.from_root());
        for span in spans {
            write!(writer, "{}", span.name())?;
            if let Some(fields) = span.extensions().get::<FormattedFields<N>>()
                && !fields.is_empty()
            {
                write!(writer, "({fields})")?;
            }
            write!(writer, ": ")?;
        }
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}
