//! What is to be reached, and whether it was.

use benches::statistics::Figure;
use benches::target::Bound::{Least as LEAST, Most as MOST};
use benches::target::{Bound, Target};

use crate::parts::{JUDGED, Measurements, Pair};

/// A value with what lies around it.
type Valued = (f64, (f64, f64));

/// A ratio with what it is to be.
fn ratio(name: String, value: Option<Valued>, bound: Bound, target: f64) -> Target {
    let (value, spread) = (value.map(|v| v.0), value.map(|v| v.1));
    Target::new(name, value, bound, target, "times", spread)
}

/// All targets.
pub(crate) fn judge(read: &Measurements) -> Vec<Target> {
    let mut targets = Vec::new();
    over_raw(read, &mut targets);
    under_openmpi(&read.pairs, &mut targets);
    for ((name, _), part) in JUDGED.iter().zip(&read.judged) {
        match part {
            Some(part) => targets.extend_from_slice(&part.targets),
            None => targets.push(ratio((*name).into(), None, MOST, 1.0)),
        }
    }
    targets
}

/// What the transport adds to libfabric.
fn over_raw(read: &Measurements, targets: &mut Vec<Target>) {
    for operation in ["put", "get"] {
        let wanted = [
            ("latency", 8, MOST, 1.05),
            ("rate", 8, LEAST, 0.95),
            ("bandwidth", 64 << 10, LEAST, 0.99),
            ("bandwidth", 256 << 10, LEAST, 0.99),
            ("bandwidth", 1 << 20, LEAST, 0.99),
            ("bandwidth", 4 << 20, LEAST, 0.99),
        ];
        for (measure, bytes, bound, target) in wanted {
            let row = read.rows.iter().find(|r| {
                (&*r.provider, &*r.operation, &*r.measure, r.bytes)
                    == ("shm", operation, measure, bytes)
            });
            let of = |ratio: Figure| (ratio.median, ratio.spread());
            let name = format!("shm {operation} {bytes} B {measure}, transport over raw libfabric");
            targets.push(ratio(name, row.map(|r| of(r.ratio)), bound, target));
        }
    }
}

/// Ours over Open MPI's own.
fn under_openmpi(pairs: &[Pair], targets: &mut Vec<Target>) {
    let wanted = [
        ("shm", "put_latency", 1, MOST, 0.5),
        ("shm", "get_latency", 1, MOST, 0.5),
        ("shm", "fetch_op_latency", 1, MOST, 0.75),
        ("shm", "accumulate_latency", 1, MOST, 0.6),
        ("shm", "put_rate", 1, LEAST, 2.5),
        ("shm", "put_rate_threads", 2, LEAST, 2.0),
        ("sockets", "put_latency", 1, MOST, 0.02),
    ];
    for (provider, measured, threads, bound, target) in wanted {
        let value = find(pairs, provider, measured, threads).and_then(judged);
        let name =
            format!("Open MPI {provider} {measured} 8 B, {threads} thread(s), ours over its own");
        targets.push(ratio(name, value, bound, target));
    }
    // Never behind beyond 3 %: of all operations and sizes, the one that fares worst.
    for (measure, bound, target) in [
        ("latency", MOST, 1.03),
        ("rate", LEAST, 0.97),
        ("bandwidth", LEAST, 0.97),
    ] {
        let (name, value) = worst(pairs, measure, bound);
        targets.push(ratio(name, value, bound, target));
    }
}

fn find<'a>(pairs: &'a [Pair], provider: &str, name: &str, threads: u32) -> Option<&'a Pair> {
    pairs
        .iter()
        .find(|p| (&*p.provider, &*p.name, p.threads, p.bytes) == (provider, name, threads, 8))
}

/// The ratio of the medians of pairs, with the least and the greatest of the pairs' own. A run that failed
/// takes its partner out of the spread with it.
fn judged(pair: &Pair) -> Option<Valued> {
    let both = pair.ours_runs.iter().zip(&pair.c_runs);
    let ratios = both.filter_map(|(ours, c)| Some((*ours)? / (*c)?));
    let around = ratios.fold((f64::MAX, f64::MIN), |(a, b), r| (a.min(r), b.max(r)));
    let ratio = pair.ratio?;
    let none = around.0 > around.1;
    Some((ratio, if none { (ratio, ratio) } else { around }))
}

/// Of the pairs over shm of one thread that measure this, the one in which ours is furthest behind.
fn worst(pairs: &[Pair], measure: &str, bound: Bound) -> (String, Option<Valued>) {
    let measures = |name: &str| {
        let name = name.strip_suffix("_of").unwrap_or(name);
        name.rsplit_once('_').is_some_and(|(_, m)| m == measure)
    };
    let mut count = 0;
    let mut worst: Option<(Valued, &Pair)> = None;
    for pair in pairs {
        if pair.provider != "shm" || pair.threads != 1 || !measures(&pair.name) {
            continue;
        }
        let Some(value) = judged(pair) else { continue };
        count += 1;
        let further = worst.is_none_or(|(so_far, _)| match bound {
            Bound::Most => value.0 > so_far.0,
            Bound::Least => value.0 < so_far.0,
        });
        if further {
            worst = Some((value, pair));
        }
    }
    match worst {
        Some((value, pair)) => (
            format!(
                "Open MPI shm, the worst {measure} of {count}: {} {} B",
                pair.name, pair.bytes
            ),
            Some(value),
        ),
        None => (format!("Open MPI shm, the worst {measure}"), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, bytes: usize, c: &[Option<f64>], ours: &[Option<f64>]) -> Pair {
        let middle = |runs: &[Option<f64>]| {
            let mut values: Vec<f64> = runs.iter().copied().flatten().collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied()
        };
        Pair {
            provider: "shm".into(),
            name: name.into(),
            bytes,
            threads: 1,
            ratio: middle(ours).zip(middle(c)).map(|(ours, c)| ours / c),
            c_runs: c.to_vec(),
            ours_runs: ours.to_vec(),
        }
    }

    #[test]
    fn a_failed_run_does_not_mix_pairs() {
        // The second run of theirs failed; 8 and 4 must not become a pair.
        let c = [Some(2.0), None, Some(4.0)];
        let ours = [Some(1.0), Some(8.0), Some(2.0)];
        let (value, spread) = judged(&pair("put_latency", 8, &c, &ours)).unwrap();
        assert_eq!(spread, (0.5, 0.5));
        assert_eq!(value, 0.5);
    }

    #[test]
    fn without_any_whole_pair_the_spread_is_the_value() {
        let c = [Some(2.0), None];
        let ours = [None, Some(1.0)];
        let found = judged(&pair("put_latency", 8, &c, &ours));
        assert_eq!(found, Some((0.5, (0.5, 0.5))));
        assert_eq!(judged(&pair("put_latency", 8, &[None], &ours)), None);
    }

    #[test]
    fn the_worst_is_that_of_all_operations_with_its_own_spread() {
        let of = |name, bytes, c: [f64; 2], ours: [f64; 2]| {
            pair(name, bytes, &c.map(Some), &ours.map(Some))
        };
        let pairs = [
            of("put_latency_of", 8, [1.0, 1.0], [0.5, 0.5]),
            of("fetch_op_latency", 8, [1.0, 2.0], [1.5, 2.2]),
            of("put_bandwidth", 64, [1.0, 1.0], [0.25, 0.5]),
            of("get_bandwidth", 64, [1.0, 1.0], [2.0, 2.0]),
        ];
        let (name, value) = worst(&pairs, "latency", MOST);
        assert!(name.contains("of 2: fetch_op_latency 8 B"), "{name}");
        assert_eq!(value, Some((1.1, (1.1, 1.5))));
        let (name, value) = worst(&pairs, "bandwidth", LEAST);
        assert!(name.contains("put_bandwidth 64 B"), "{name}");
        assert_eq!(value, Some((0.5, (0.25, 0.5))));
        assert_eq!(worst(&pairs, "rate", LEAST).1, None);
    }

    #[test]
    fn what_was_not_measured_is_named() {
        let read = Measurements {
            judged: JUDGED.iter().map(|_| None).collect(),
            ..Default::default()
        };
        let targets = judge(&read);
        assert!(targets.iter().all(|t| t.value.is_none() && !t.met));
        for (part, _) in JUDGED {
            assert!(targets.iter().any(|t| t.name == part), "{part}");
        }
    }
}
