//! Two runs side by side.

use std::io::Write;

use super::super::{CommandError, Exit};
use super::report::{Figure, Report};

/// A difference counts when the rounds of both runs do not overlap and the medians differ by more than this.
const TOLERANCE: f64 = 0.05;

/// How a figure differs from the earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Same,
    Better,
    Worse,
}

impl Verdict {
    /// `rising` says that more is better.
    fn of(old: Figure, new: Figure, rising: bool) -> Verdict {
        let apart = new.least > old.most || new.most < old.least;
        if !apart || (new.median / old.median - 1.0).abs() <= TOLERANCE {
            Verdict::Same
        } else if (new.median > old.median) == rising {
            Verdict::Better
        } else {
            Verdict::Worse
        }
    }

    const fn mark(self) -> &'static str {
        match self {
            Verdict::Same => "",
            Verdict::Better => "better",
            Verdict::Worse => "WORSE",
        }
    }
}

/// Prints both runs by size, with the spread of each figure. Returns what became worse.
pub(super) fn print(old: &Report, new: &Report, json: bool) -> Result<Vec<String>, CommandError> {
    alike(old, new)
        .map_err(|reason| CommandError::new(Exit::Usage, format!("--compare: {reason}")))?;
    // Beside JSON on stdout, for people.
    let mut out: Box<dyn Write> = if json {
        Box::new(std::io::stderr().lock())
    } else {
        Box::new(std::io::stdout().lock())
    };
    let mut worse = Vec::new();
    writeln!(
        out,
        "\nearlier (host-stub {}) and now: median, least to most of the rounds",
        old.version
    )?;
    for row in &new.rows {
        let Some(before) = old.rows.iter().find(|before| before.size == row.size) else {
            continue;
        };
        let figures = [
            ("latency us", before.latency_us, row.latency_us, false),
            ("calls/s", before.calls_per_s, row.calls_per_s, true),
        ];
        for (name, before, now, rising) in figures {
            let verdict = Verdict::of(before, now, rising);
            let change = (now.median / before.median - 1.0) * 100.0;
            let line = format!(
                "{:>9} {name:<11}{:>32}{:>32} {change:>+7.1} % {}",
                row.size,
                shown(before),
                shown(now),
                verdict.mark()
            );
            writeln!(out, "{}", line.trim_end())?;
            if verdict == Verdict::Worse {
                worse.push(format!(
                    "{} of {} bytes: {name} {change:+.1} %",
                    new.operation, row.size
                ));
            }
        }
    }
    Ok(worse)
}

/// Why two runs cannot be compared.
fn alike(old: &Report, new: &Report) -> Result<(), String> {
    let ranks = [old, new].map(|run| run.ranks.to_string());
    let facts = [
        ("operation", &old.operation, &new.operation),
        ("provider", &old.provider, &new.provider),
        ("table", &old.table, &new.table),
        ("number of ranks", &ranks[0], &ranks[1]),
    ];
    for (fact, old, new) in facts {
        if old != new {
            return Err(format!(
                "the {fact} was {old} and is {new} now; only like runs can be compared"
            ));
        }
    }
    let sizes = |run: &Report| run.rows.iter().map(|row| row.size).collect::<Vec<_>>();
    let before = sizes(old);
    if !sizes(new).iter().any(|size| before.contains(size)) {
        return Err("the runs have no size in common".to_owned());
    }
    Ok(())
}

fn shown(figure: Figure) -> String {
    let number = |value: f64| {
        if value < 1000.0 {
            format!("{value:.2}")
        } else {
            format!("{value:.0}")
        }
    };
    let Figure {
        median,
        least,
        most,
    } = figure;
    format!("{} ({} to {})", number(median), number(least), number(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(median: f64, least: f64, most: f64) -> Figure {
        Figure {
            median,
            least,
            most,
        }
    }

    #[test]
    fn only_what_lies_outside_the_spread_and_the_tolerance_counts() {
        let old = figure(10.0, 9.0, 11.0);
        for (new, falling, rising) in [
            (figure(12.0, 11.5, 13.0), Verdict::Worse, Verdict::Better),
            (figure(8.0, 7.0, 8.9), Verdict::Better, Verdict::Worse),
            // The rounds overlap.
            (figure(20.0, 10.9, 30.0), Verdict::Same, Verdict::Same),
        ] {
            assert_eq!(Verdict::of(old, new, false), falling);
            assert_eq!(Verdict::of(old, new, true), rising);
        }
        // They lie apart, but by little.
        let exact = figure(10.0, 10.0, 10.0);
        assert_eq!(
            Verdict::of(exact, figure(10.4, 10.4, 10.4), false),
            Verdict::Same
        );
    }

    #[test]
    fn unlike_runs_are_refused() {
        let old = Report::new("put", "btl", "shm", "delivery", 2);
        let other = Report::new("put", "btl", "sockets", "delivery", 2);
        assert!(
            alike(&old, &other)
                .unwrap_err()
                .contains("the provider was shm and is sockets now")
        );
        let more = Report::new("put", "btl", "shm", "delivery", 3);
        assert!(
            alike(&old, &more)
                .unwrap_err()
                .contains("the number of ranks was 2 and is 3 now")
        );
        assert!(
            alike(&old, &old.clone())
                .unwrap_err()
                .contains("no size in common")
        );
    }
}
