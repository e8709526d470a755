//! Collects rounds, and prints medians.

use std::path::Path;

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
        if let Some(path) = output {
            let all = All {
                lines,
                ratios: &self.ratios,
                counts: &self.counts,
            };
            let json = serde_json::to_vec_pretty(&all).map_err(|e| e.to_string())?;
            std::fs::write(path, json).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        Ok(())
    }
}
