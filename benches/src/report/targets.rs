//! What is to be reached, and whether it was.

use benches::target::Bound::{Least as LEAST, Most as MOST};
use benches::target::{Bound, Target};

use crate::series::{Measurements, Pair};

/// A ratio with what it is to be.
fn ratio(name: String, value: Option<(f64, (f64, f64))>, bound: Bound, target: f64) -> Target {
    let (value, spread) = (value.map(|v| v.0), value.map(|v| v.1));
    Target::new(name, value, bound, target, "times", spread)
}

/// All targets of measured times.
pub(crate) fn judge(read: &Measurements) -> Vec<Target> {
    let mut targets = Vec::new();
    for operation in ["put", "get"] {
        let wanted = [
            ("latency", 8, MOST, 1.05),
            ("rate", 8, LEAST, 0.95),
            ("bandwidth", 64 << 10, LEAST, 0.99),
            ("bandwidth", 1 << 20, LEAST, 0.99),
            ("bandwidth", 4 << 20, LEAST, 0.99),
        ];
        for (measure, bytes, bound, target) in wanted {
            let row = read.rows.iter().find(|r| {
                (&*r.provider, &*r.operation, &*r.measure, r.bytes)
                    == ("shm", operation, measure, bytes)
            });
            let name = format!("shm {operation} {bytes} B {measure}, transport over raw libfabric");
            targets.push(ratio(name, row.map(|r| (r.ratio, r.spread)), bound, target));
        }
    }
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
        let pair = read.pairs.iter().find(|p| {
            (&*p.provider, &*p.name, p.threads, p.bytes) == (provider, measured, threads, 8)
        });
        let value = pair.and_then(judged);
        let name =
            format!("Open MPI {provider} {measured} 8 B, {threads} thread(s), ours over its own");
        targets.push(ratio(name, value, bound, target));
    }
    for provider in ["shm", "tcp"] {
        for measured in ["put_latency", "get_latency", "fetch_op_latency"] {
            let pair = read.beside_mpich.iter().find(|p| {
                (&*p.provider, &*p.name, p.threads, p.bytes) == (provider, measured, 1, 8)
            });
            let name = format!("{provider} {measured} 8 B, ours over MPICH's");
            targets.push(ratio(name, pair.and_then(judged), MOST, 1.0));
        }
    }
    // Never behind beyond 3 %: of all sizes, the one that fares worst.
    for (suffix, bound, target) in [("latency_of", MOST, 1.03), ("bandwidth", LEAST, 0.97)] {
        let of = read
            .pairs
            .iter()
            .filter(|p| p.provider == "shm" && p.name.ends_with(suffix));
        let worst = of
            .filter_map(|p| Some((p.ratio?, p.bytes, &p.name)))
            .reduce(|a, b| if (a.0 > b.0) == (bound == MOST) { a } else { b });
        let name = match worst {
            Some((_, bytes, name)) => format!("Open MPI shm, worst {suffix}: {name} {bytes} B"),
            None => format!("Open MPI shm, worst {suffix}"),
        };
        targets.push(ratio(name, worst.map(|w| (w.0, (w.0, w.0))), bound, target));
    }
    match &read.growth {
        Some(growth) => targets.extend_from_slice(growth),
        None => targets.push(ratio("growth".into(), None, MOST, 1.0)),
    }
    targets
}

/// The ratio of the medians of pairs, with the least and the greatest of the pairs' own.
fn judged(pair: &Pair) -> Option<(f64, (f64, f64))> {
    let ratios = pair.ours_runs.iter().zip(&pair.c_runs).map(|(o, c)| o / c);
    let around = ratios.fold((f64::MAX, f64::MIN), |(a, b), r| (a.min(r), b.max(r)));
    Some((pair.ratio?, around))
}
