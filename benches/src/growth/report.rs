//! What was measured, as lines for people and as targets for the report of all benchmarks.

use std::path::Path;

use benches::part;
use benches::target::{Bound, Target};
use indicatif::ProgressBar;

pub(crate) struct Report {
    bar: ProgressBar,
    rows: Vec<String>,
    targets: Vec<Target>,
}

impl Report {
    pub(crate) fn new() -> Result<Report, String> {
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(std::time::Duration::from_millis(200));
        bar.set_message("growth");
        Ok(Report {
            bar,
            rows: Vec::new(),
            targets: Vec::new(),
        })
    }

    /// Takes note of a line, and shows it.
    pub(crate) fn row(&mut self, line: String) {
        self.bar.suspend(|| println!("{line}"));
        self.rows.push(line);
    }

    /// Takes note of a value that is to be reached.
    pub(crate) fn target(
        &mut self,
        name: String,
        value: f64,
        bound: Bound,
        target: f64,
        unit: &str,
        spread: Option<(f64, f64)>,
    ) {
        self.bar.set_message(name.clone());
        let target = Target::new(name, Some(value), bound, target, unit, spread);
        self.targets.push(target);
    }

    /// Shows the targets, and writes everything where that is asked for.
    pub(crate) fn finish(self, output: Option<&Path>) -> Result<(), String> {
        self.bar.finish_and_clear();
        println!();
        for t in &self.targets {
            println!(
                "{}: {:.3} {} ({} {}), {}",
                t.name,
                t.value.unwrap_or(f64::NAN),
                t.unit,
                t.bound.text(),
                t.target,
                if t.met { "met" } else { "NOT MET" }
            );
        }
        let Some(path) = output else { return Ok(()) };
        part::write(path, &self.targets, &self.rows)
    }
}
