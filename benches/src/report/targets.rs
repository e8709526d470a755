//! What is to be reached, and whether it was.

use serde::Serialize;

use crate::series::Measurements;

#[derive(Serialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    /// `None` where it was not measured, which does not meet the target.
    pub(crate) value: Option<f64>,
    pub(crate) bound: &'static str,
    pub(crate) target: f64,
    pub(crate) unit: &'static str,
    pub(crate) met: bool,
    pub(crate) spread: Option<(f64, f64)>,
}

const MOST: &str = "at most";
const LEAST: &str = "at least";

impl Target {
    fn new(
        name: String,
        value: Option<(f64, (f64, f64))>,
        bound: &'static str,
        target: f64,
    ) -> Target {
        Target {
            name,
            value: value.map(|v| v.0),
            bound,
            target,
            unit: "times",
            met: value.is_some_and(|(v, _)| {
                if bound == MOST {
                    v <= target
                } else {
                    v >= target
                }
            }),
            spread: value.map(|v| v.1),
        }
    }
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
            targets.push(Target::new(
                name,
                row.map(|r| (r.ratio, r.spread)),
                bound,
                target,
            ));
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
        let value = pair.and_then(|p| {
            let ratios = p.ours_runs.iter().zip(&p.c_runs).map(|(o, c)| o / c);
            let spread = ratios.fold((f64::MAX, f64::MIN), |(a, b), r| (a.min(r), b.max(r)));
            Some((p.ratio?, spread))
        });
        let name =
            format!("Open MPI {provider} {measured} 8 B, {threads} thread(s), ours over its own");
        targets.push(Target::new(name, value, bound, target));
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
        targets.push(Target::new(
            name,
            worst.map(|w| (w.0, (w.0, w.0))),
            bound,
            target,
        ));
    }
    targets
}
