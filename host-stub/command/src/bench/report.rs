//! The measured values, and their printing.

use std::io::Write;

use serde::Serialize;

use super::super::CommandError;

/// The figures of one run.
#[derive(Serialize)]
pub(super) struct Report {
    /// The version of host-stub.
    pub(super) version: &'static str,
    pub(super) provider: String,
    pub(super) completion: String,
    pub(super) table: &'static str,
    pub(super) ranks: u32,
    pub(super) operation: &'static str,
    pub(super) rows: Vec<Row>,
}

/// The measured values of one size.
#[derive(Serialize)]
pub(super) struct Row {
    /// Bytes of one call.
    pub(super) size: usize,
    /// Calls whose latency was measured.
    pub(super) iterations: usize,
    /// Time of a call and its flush, microseconds.
    pub(super) latency_us: Figure,
    /// The 99th percentile, microseconds.
    pub(super) latency_p99_us: f64,
    /// Calls per second, many before a flush.
    pub(super) calls_per_s: Figure,
    /// Bytes of these calls, MB/s.
    pub(super) mb_per_s: f64,
}

/// A median, with the least and the greatest value of the rounds.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Figure {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Figure {
    pub(super) fn of(mut rounds: Vec<f64>) -> Figure {
        rounds.sort_unstable_by(f64::total_cmp);
        let at = |index: usize| rounds.get(index).copied().unwrap_or(f64::NAN);
        Figure {
            median: at(rounds.len() / 2),
            least: at(0),
            most: at(rounds.len().saturating_sub(1)),
        }
    }
}

impl Report {
    /// Prints the head of the table.
    pub(super) fn print_head(&self) -> Result<(), CommandError> {
        let mut out = std::io::stdout().lock();
        let (operation, provider) = (self.operation, &self.provider);
        writeln!(
            out,
            "{operation}, provider {provider} ({})",
            self.completion
        )?;
        writeln!(
            out,
            "{:>9} {:>12} {:>12} {:>12} {:>12}",
            "bytes", "median us", "p99 us", "calls/s", "MB/s"
        )?;
        Ok(())
    }
}

impl Row {
    /// Prints the row as a line of the table.
    pub(super) fn print(&self) -> Result<(), CommandError> {
        writeln!(
            std::io::stdout(),
            "{:>9} {:>12.2} {:>12.2} {:>12.0} {:>12.1}",
            self.size,
            self.latency_us.median,
            self.latency_p99_us,
            self.calls_per_s.median,
            self.mb_per_s
        )?;
        Ok(())
    }
}
