//! The measured values, as lines for people and as targets for the report of all benchmarks.

use std::path::Path;

use benches::part;
use benches::target::{Bound, Target};

#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<String>,
    targets: Vec<Target>,
}

impl Report {
    /// Records a line, and prints it.
    pub(crate) fn row(&mut self, line: String) {
        println!("{line}");
        self.rows.push(line);
    }

    /// Records a value with its target.
    pub(crate) fn target(
        &mut self,
        name: String,
        value: f64,
        bound: Bound,
        target: f64,
        unit: &str,
        spread: Option<(f64, f64)>,
    ) {
        let target = Target::new(name, Some(value), bound, target, unit, spread);
        self.targets.push(target);
    }

    /// Prints the targets, and writes everything to the output file if there is one.
    pub(crate) fn finish(self, output: Option<&Path>) -> Result<(), String> {
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
