//! Collects rounds, and prints medians.

use std::path::Path;

use benches::part;
use benches::target::{Bound, Target};
use host_stub::job::Job;
use serde::Serialize;

use super::count::Steps;

#[derive(Default)]
pub(super) struct Report {
    /// Nanoseconds of each round, in the order of the first.
    rounds: Vec<(&'static str, Vec<f64>)>,
    ratios: Vec<Ratio>,
    counts: Vec<Count>,
}

#[derive(Serialize)]
struct Line {
    what: &'static str,
    median_ns: f64,
    best_ns: f64,
}

#[derive(Serialize)]
struct Ratio {
    what: &'static str,
    over: &'static str,
    /// Median of the rounds' own ratios of times.
    ratio: f64,
    /// Their quarter and three-quarter marks.
    spread: (f64, f64),
}

#[derive(Serialize)]
struct Count {
    what: &'static str,
    instructions: usize,
    indirect: usize,
}

#[derive(Serialize)]
struct All<'a> {
    lines: Vec<Line>,
    ratios: &'a [Ratio],
    counts: &'a [Count],
}

fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * part).round() as usize]
}

impl Report {
    pub(super) fn add(&mut self, what: &'static str, nanoseconds: f64, kept: bool) {
        if !kept {
            return;
        }
        match self.rounds.iter_mut().find(|(name, _)| *name == what) {
            Some((_, values)) => values.push(nanoseconds),
            None => self.rounds.push((what, vec![nanoseconds])),
        }
    }

    pub(super) fn ratio(&mut self, what: &'static str, over: &'static str) {
        let find = |name| self.rounds.iter().find(|(other, _)| *other == name);
        if let (Some((_, a)), Some((_, b))) = (find(what), find(over)) {
            let ratios: Vec<f64> = a.iter().zip(b).map(|(a, b)| a / b).collect();
            self.ratios.push(Ratio {
                what,
                over,
                ratio: quantile(&ratios, 0.5),
                spread: (quantile(&ratios, 0.25), quantile(&ratios, 0.75)),
            });
        }
    }

    pub(super) fn count(&mut self, what: &'static str, steps: Option<Steps>) {
        match steps {
            None => eprintln!("{what}: instructions not counted, processes cannot be traced here"),
            Some(steps) => self.counts.push(Count {
                what,
                instructions: steps.instructions,
                indirect: steps.indirect,
            }),
        }
    }

    pub(super) fn print(&self, job: &Job, output: Option<&Path>) -> Result<(), String> {
        let lines = self.rounds.iter().filter(|(_, values)| !values.is_empty());
        let lines: Vec<Line> = lines
            .map(|(what, values)| Line {
                what,
                median_ns: quantile(values, 0.5),
                best_ns: quantile(values, 0.0),
            })
            .collect();
        println!("provider {}", job.transport().attributes().provider);
        println!("{:<32} {:>12} {:>12}", "", "median ns", "best ns");
        for line in &lines {
            println!(
                "{:<32} {:>12.1} {:>12.1}",
                line.what, line.median_ns, line.best_ns
            );
        }
        println!(
            "\n{:<32} {:<32} {:>8}  spread",
            "time of", "over that of", "ratio"
        );
        for r in &self.ratios {
            let (low, high) = r.spread;
            println!(
                "{:<32} {:<32} {:>8.3}  {low:.3}..{high:.3}",
                r.what, r.over, r.ratio
            );
        }
        println!(
            "\n{:<32} {:>12} {:>12}",
            "one call", "instructions", "indirect"
        );
        for c in &self.counts {
            println!("{:<32} {:>12} {:>12}", c.what, c.instructions, c.indirect);
        }
        let targets = self.targets(&lines);
        println!();
        for t in &targets {
            let (value, met) = (
                t.value.unwrap_or(f64::NAN),
                if t.met { "met" } else { "NOT met" },
            );
            let bound = t.bound.text();
            println!(
                "{}: {value:.3} {} ({bound} {}), {met}",
                t.name, t.unit, t.target
            );
        }
        if let Some(path) = output {
            let all = All {
                lines,
                ratios: &self.ratios,
                counts: &self.counts,
            };
            part::write(path, &targets, &all)?;
        }
        Ok(())
    }

    /// What is to be reached by the table over shared memory, and by that over the transport.
    fn targets(&self, lines: &[Line]) -> Vec<Target> {
        let time = |what: &'static str, most: f64| {
            let line = lines.iter().find(|line| line.what == what);
            let value = line.map(|line| line.median_ns);
            Target::new(what.into(), value, Bound::Most, most, "ns", None)
        };
        let over = |what: &'static str, over: &'static str, most: f64| {
            let found = self
                .ratios
                .iter()
                .find(|r| (r.what, r.over) == (what, over));
            let (value, spread) = (found.map(|r| r.ratio), found.map(|r| r.spread));
            let name = format!("time of {what} over that of {over}");
            Target::new(name, value, Bound::Most, most, "times", spread)
        };
        vec![
            time("shm put 8 B", 15.0),
            time("shm fetch-add 8 B", 30.0),
            // At least 0.95 of the bandwidth.
            over("shm put 1 MiB", "memcpy 1 MiB", 1.0 / 0.95),
            over("btl put 8 B and flush", "vtable put 8 B and flush", 1.1),
            over(
                "btl 64 puts 8 B and flush",
                "vtable 64 puts 8 B and flush",
                1.15,
            ),
            over("btl get 8 B and flush", "vtable get 8 B and flush", 1.1),
            over(
                "btl fetch-add 8 B and flush",
                "vtable fetch-add 8 B and flush",
                1.1,
            ),
        ]
    }
}
