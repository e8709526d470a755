//! What the command prints: a table as it grows, and its curves where stdout is a terminal.

use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};

use super::super::CommandError;
use super::report::{Report, Row};
use crate::curves::{self, Curve, Panel};

/// Lines and columns of a panel.
const HEIGHT: u16 = 14;
const WIDTHS: (u16, u16) = (40, 100);

/// The table of a run.
pub(super) struct Table {
    report: Report,
    quiet: bool,
    bar: Option<ProgressBar>,
}

impl Table {
    /// Prints the head, unless it is `quiet`. A progress bar is shown where stderr is a terminal.
    pub(super) fn start(report: Report, count: usize, quiet: bool) -> Result<Table, CommandError> {
        if !quiet {
            let mut out = std::io::stdout().lock();
            writeln!(
                out,
                "{}, provider {} ({})",
                report.operation, report.provider, report.completion
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
        Ok(Table { report, quiet, bar })
    }

    /// Adds and prints a row.
    pub(super) fn add(&mut self, row: Row) -> Result<(), CommandError> {
        self.report.rows.push(row);
        let print = || -> std::io::Result<()> {
            if self.quiet {
                return Ok(());
            }
            let mut out = std::io::stdout().lock();
            writeln!(
                out,
                "{:>9} {:>12.2} {:>12.2} {:>12.0} {:>12.1}",
                row.size,
                row.latency_us.median,
                row.latency_p99_us,
                row.calls_per_s.median,
                row.mb_per_s
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

    /// The whole.
    pub(super) fn finish(self) -> Report {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.report
    }
}

/// Latency and bandwidth of the run.
pub(super) fn panels(report: &Report, name: &str) -> [Panel; 2] {
    let curve = |value: fn(&Row) -> f64| Curve {
        name: name.to_owned(),
        points: report
            .rows
            .iter()
            .map(|row| (row.size as u64, value(row)))
            .collect(),
    };
    let panel = |measure: &str, curve| Panel {
        title: format!(
            "{} over {}: {measure} over size (bytes)",
            report.operation, report.provider
        ),
        curves: vec![curve],
    };
    [
        panel("latency (us)", curve(|row| row.latency_us.median)),
        panel("bandwidth (MB/s)", curve(|row| row.mb_per_s)),
    ]
}

/// Draws on the terminal; nothing where stdout is none.
pub(super) fn draw(panels: &[Panel]) -> Result<(), CommandError> {
    let mut out = std::io::stdout().lock();
    if !out.is_terminal() {
        return Ok(());
    }
    // A terminal that does not tell its size gets the least.
    let width = ratatui::crossterm::terminal::size().map_or(WIDTHS.0, |(columns, _)| columns);
    for panel in panels {
        writeln!(out)?;
        for line in curves::lines(panel, width.clamp(WIDTHS.0, WIDTHS.1), HEIGHT) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}
