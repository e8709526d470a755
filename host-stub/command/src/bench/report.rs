//! What was measured, and the file that keeps it for a later comparison.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::super::{CommandError, Exit};

/// Number of the file's format. Another one is refused: its figures may mean something else.
const FORMAT: u32 = 1;

/// The figures of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Report {
    format: u32,
    /// Of host-stub.
    pub(super) version: String,
    pub(super) provider: String,
    pub(super) completion: String,
    pub(super) table: String,
    pub(super) ranks: u32,
    pub(super) operation: String,
    pub(super) rows: Vec<Row>,
}

/// What was measured at one size.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Row {
    /// Bytes of one call.
    pub(super) size: usize,
    /// Calls whose latency was measured.
    pub(super) iterations: usize,
    /// A call and its flush, microseconds.
    pub(super) latency_us: Figure,
    /// The 99th of 100, microseconds.
    pub(super) latency_p99_us: f64,
    /// Calls per second, many before a flush.
    pub(super) calls_per_s: Figure,
    /// Their bytes, MB/s.
    pub(super) mb_per_s: f64,
}

/// A median, and the least and the most of the rounds in which it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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

    fn is_sound(self) -> bool {
        let positive = [self.median, self.least, self.most]
            .iter()
            .all(|v| v.is_finite() && *v > 0.0);
        positive && self.least <= self.most
    }
}

impl Report {
    pub(super) fn new(
        operation: &str,
        table: &str,
        provider: &str,
        completion: &str,
        ranks: u32,
    ) -> Report {
        Report {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            provider: provider.to_owned(),
            completion: completion.to_owned(),
            table: table.to_owned(),
            ranks,
            operation: operation.to_owned(),
            rows: Vec::new(),
        }
    }

    /// Writes it for [`read`](Self::read).
    pub(super) fn save(&self, path: &Path) -> Result<(), CommandError> {
        let text = serde_json::to_string_pretty(self).map_err(std::io::Error::from)?;
        std::fs::write(path, text + "\n").map_err(|error| {
            CommandError::new(Exit::Failed, format!("{}: {error}", path.display()))
        })
    }

    /// Reads what [`save`](Self::save) or `--json` wrote.
    pub(super) fn read(path: &Path) -> Result<Report, CommandError> {
        let refused = |reason: String| {
            CommandError::new(
                Exit::Usage,
                format!("--compare {}: {reason}", path.display()),
            )
        };
        let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
        Report::parse(&text).map_err(refused)
    }

    fn parse(text: &str) -> Result<Report, String> {
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let unknown = |error| format!("no figures of `host-stub bench`: {error}");
        let head: Head = serde_json::from_str(text).map_err(unknown)?;
        if head.format != FORMAT {
            return Err(format!(
                "format {}, but this host-stub reads format {FORMAT}: measure again with `--save`",
                head.format
            ));
        }
        let report: Report = serde_json::from_str(text).map_err(unknown)?;
        for row in &report.rows {
            if row.size == 0 || !row.latency_us.is_sound() || !row.calls_per_s.is_sound() {
                return Err(format!("the figures of {} bytes cannot be right", row.size));
            }
        }
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::new("put", "btl", "shm", "delivery", 2);
        report.rows.push(Row {
            size: 8,
            iterations: 9,
            latency_us: Figure::of(vec![3.0, 1.0, 2.0]),
            latency_p99_us: 3.0,
            calls_per_s: Figure::of(vec![1e6]),
            mb_per_s: 8.0,
        });
        report
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let text = serde_json::to_string(&report()).unwrap();
        let read = Report::parse(&text).unwrap();
        let figure = read.rows[0].latency_us;
        assert_eq!((figure.least, figure.median, figure.most), (1.0, 2.0, 3.0));
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }

    #[test]
    fn another_format_and_missing_or_wrong_figures_are_refused() {
        let good = serde_json::to_value(report()).unwrap();
        let said = |change: &dyn Fn(&mut serde_json::Value)| {
            let mut value = good.clone();
            change(&mut value);
            Report::parse(&value.to_string()).unwrap_err()
        };
        assert!(
            said(&|v| v["format"] = 2.into())
                .contains("format 2, but this host-stub reads format 1")
        );
        for name in ["format", "provider", "ranks", "rows"] {
            let refusal = said(&|v| drop(v.as_object_mut().unwrap().remove(name)));
            assert!(
                refusal.contains(&format!("missing field `{name}`")),
                "{refusal}"
            );
        }
        let refusal = said(&|v| {
            drop(
                v["rows"][0]["latency_us"]
                    .as_object_mut()
                    .unwrap()
                    .remove("most"),
            )
        });
        assert!(refusal.contains("missing field `most`"), "{refusal}");
        let wrong = "the figures of 8 bytes cannot be right";
        assert_eq!(
            said(&|v| v["rows"][0]["latency_us"]["median"] = 0.into()),
            wrong
        );
        assert_eq!(
            said(&|v| v["rows"][0]["calls_per_s"]["least"] = 1e9.into()),
            wrong
        );
    }
}
