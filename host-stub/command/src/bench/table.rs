//! What the command prints: a table as it grows, or one JSON object at the end.

use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::super::{CommandError, print_json};
use super::measure::Row;
use host_stub::job::Job;

/// The rows of a run.
#[derive(Serialize)]
pub(super) struct Table {
    provider: String,
    completion: String,
    ranks: u32,
    operation: &'static str,
    rows: Vec<Row>,
    #[serde(skip)]
    json: bool,
    #[serde(skip)]
    bar: Option<ProgressBar>,
}

impl Table {
    /// Prints the head. A progress bar is shown where stderr is a terminal.
    pub(super) fn start(
        job: &Job,
        operation: &'static str,
        count: usize,
        json: bool,
    ) -> Result<Table, CommandError> {
        let attributes = job.transport().attributes();
        if !json {
            let mut out = std::io::stdout().lock();
            writeln!(
                out,
                "{operation}, provider {} ({})",
                attributes.provider, attributes.completion
            )?;
            writeln!(
                out,
                "{:>9} {:>12} {:>12} {:>12} {:>12}",
                "bytes", "median us", "p99 us", "calls/s", "MB/s"
            )?;
        }
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} sizes, {eta} left")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(count as u64).with_style(style)
        });
        Ok(Table {
            provider: attributes.provider.clone(),
            completion: attributes.completion.clone(),
            ranks: job.size(),
            operation,
            rows: Vec::with_capacity(count),
            json,
            bar,
        })
    }

    /// Adds and prints a row.
    pub(super) fn add(&mut self, row: Row) -> Result<(), CommandError> {
        self.rows.push(row);
        let print = || -> std::io::Result<()> {
            if self.json {
                return Ok(());
            }
            let mut out = std::io::stdout().lock();
            writeln!(
                out,
                "{:>9} {:>12.2} {:>12.2} {:>12.0} {:>12.1}",
                row.size, row.latency_us, row.latency_p99_us, row.calls_per_s, row.mb_per_s
            )
        };
        match &self.bar {
            Some(bar) => {
                bar.suspend(print)?;
                bar.inc(1);
            }
            None => print()?,
        }
        Ok(())
    }

    /// Prints the end.
    pub(super) fn finish(self) -> Result<(), CommandError> {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if self.json {
            print_json(&self)?;
        }
        Ok(())
    }
}
