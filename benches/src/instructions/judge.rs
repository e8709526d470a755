//! Comparison of counts with the recorded counts and with the limits.

use std::collections::{BTreeMap, BTreeSet};

use benches::target::{Bound, Target};

/// Instructions by kind of operation, of each provider.
pub(super) type Counts = BTreeMap<String, BTreeMap<String, f64>>;

/// The largest accepted ratio of a count to the recorded one.
const TOLERANCE: f64 = 1.03;
/// Maximum instructions from the table's entry to the provider's call and back, without callback: of a put or get, and of
/// an atomic.
const TRANSFER_LIMIT: f64 = 80.0;
const ATOMIC_LIMIT: f64 = 100.0;
/// Maximum instructions of a put or get through a ring.
const RING_LIMIT: f64 = 150.0;
/// Maximum instructions of a put that is gathered in a message, including its share of sending the
/// message.
const GATHER_LIMIT: f64 = 150.0;
/// Maximum instructions of an operation with callback, including its completion.
const RECORDED_LIMIT: f64 = 190.0;
/// Maximum instructions of a put on a window with its flush, including the host's.
const WINDOW_LIMIT: f64 = 350.0;

/// A count compared with the recorded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Kept,
    Lower,
    Over,
    /// Counted, but not recorded.
    NotRecorded,
    /// Recorded, but no longer counted.
    NotCounted,
}

impl Verdict {
    fn of(counted: Option<f64>, recorded: Option<f64>) -> Verdict {
        match (counted, recorded) {
            (None, _) => Verdict::NotCounted,
            (_, None) => Verdict::NotRecorded,
            (Some(counted), Some(recorded)) if counted > recorded * TOLERANCE => Verdict::Over,
            (Some(counted), Some(recorded)) if counted < recorded / TOLERANCE => Verdict::Lower,
            _ => Verdict::Kept,
        }
    }

    fn fails(self) -> bool {
        !matches!(self, Verdict::Kept | Verdict::Lower)
    }

    fn text(self) -> &'static str {
        match self {
            Verdict::Kept => "",
            Verdict::Lower => "lower: ./dev bench instructions --record",
            Verdict::Over => "MORE than 3 % over",
            Verdict::NotRecorded => "NOT RECORDED: ./dev bench instructions --record",
            Verdict::NotCounted => {
                "NOT COUNTED any more: ./dev bench instructions --record, if meant"
            }
        }
    }
}

/// The limit of a kind of operation.
fn limit(provider: &str, kind: &str) -> Option<f64> {
    match (provider, kind) {
        ("net", "put") => Some(GATHER_LIMIT),
        ("shm", "put" | "get") => Some(RING_LIMIT),
        ("lab", "put" | "get") => Some(TRANSFER_LIMIT),
        ("lab", "fetch-add" | "compare-swap" | "add") => Some(ATOMIC_LIMIT),
        ("lab", "put with callback and its completion") => Some(RECORDED_LIMIT),
        ("lab", "window put and flush") => Some(WINDOW_LIMIT),
        _ => None,
    }
}

/// Prints the counts with the recorded counts and the limits. Returns whether each kind is recorded, is still
/// counted, and keeps its limits.
pub(super) fn table(counts: &Counts, recorded: &Counts) -> bool {
    println!(
        "{:<10} {:<38} {:>8} {:>9}",
        "provider", "instructions of ours", "counted", "recorded"
    );
    let mut kept = true;
    for (provider, kind) in kinds(counts, recorded) {
        let of = |counts: &Counts| counts.get(provider)?.get(kind).copied();
        let (count, old) = (of(counts), of(recorded));
        let verdict = Verdict::of(count, old);
        kept &= !verdict.fails();
        let limit = limit(provider, kind)
            .zip(count)
            .map_or(String::new(), |(limit, count)| {
                let met = if count <= limit { "met" } else { "NOT met" };
                format!("target {limit:.0} {met}")
            });
        let shown = |count: Option<f64>| count.map_or("-".into(), |count| format!("{count:.1}"));
        println!(
            "{provider:<10} {kind:<38} {:>8} {:>9} {limit} {}",
            shown(count),
            shown(old),
            verdict.text()
        );
    }
    kept
}

/// Every kind that was counted or recorded.
fn kinds<'a>(counts: &'a Counts, recorded: &'a Counts) -> BTreeSet<(&'a str, &'a str)> {
    [counts, recorded]
        .into_iter()
        .flatten()
        .flat_map(|(provider, kinds)| kinds.keys().map(|kind| (provider.as_str(), kind.as_str())))
        .collect()
}

/// The limits as targets of the report.
pub(super) fn targets(counts: &Counts) -> Vec<Target> {
    let mut targets = Vec::new();
    for (provider, kinds) in counts {
        for (kind, &count) in kinds {
            let Some(limit) = limit(provider, kind) else {
                continue;
            };
            targets.push(Target::new(
                format!("{provider}: instructions of {kind}"),
                Some(count),
                Bound::Most,
                limit,
                "instructions",
                None,
            ));
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(&str, f64)]) -> Counts {
        let kinds = of.iter().map(|&(kind, count)| (kind.into(), count));
        [("lab".into(), kinds.collect())].into()
    }

    #[test]
    fn three_percent_over_are_kept_and_no_more() {
        let recorded = counts(&[("put", 1000.0)]);
        for (counted, kept) in [(1030.0, true), (1031.0, false), (900.0, true)] {
            assert_eq!(
                table(&counts(&[("put", counted)]), &recorded),
                kept,
                "{counted}"
            );
        }
        assert_eq!(Verdict::of(Some(970.0), Some(1000.0)), Verdict::Lower);
        assert_eq!(Verdict::of(Some(971.0), Some(1000.0)), Verdict::Kept);
    }

    #[test]
    fn a_kind_that_only_one_side_knows_fails() {
        let (one, two) = (
            counts(&[("put", 1.0)]),
            counts(&[("put", 1.0), ("get", 1.0)]),
        );
        assert!(table(&one, &one));
        assert!(!table(&two, &one), "counted, not recorded");
        assert!(!table(&one, &two), "recorded, not counted");
        assert!(!table(&one, &Counts::new()), "a provider not recorded");
    }

    #[test]
    fn limits_become_targets() {
        let counted = counts(&[("put", 79.0), ("fetch-add", 114.0), ("empty poll", 50.0)]);
        let targets = targets(&counted);
        let met: Vec<(f64, bool)> = targets.iter().map(|t| (t.target, t.met)).collect();
        assert_eq!(met, [(ATOMIC_LIMIT, false), (TRANSFER_LIMIT, true)]);
    }
}
