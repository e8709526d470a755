//! Curves over size.

use benches::statistics::Figure;
use serde::Serialize;

use crate::parts::Measurements;

/// One curve: values over sizes, of one way to do an operation.
#[derive(Serialize)]
pub(crate) struct Series {
    pub(crate) provider: String,
    pub(crate) operation: String,
    /// `latency` in nanoseconds, `rate` in operations per second, or `bandwidth` in bytes per second.
    pub(crate) measure: String,
    /// `raw`, `transport`, `window`, `Open MPI, ours` or `Open MPI, its own`; with MPICH's libfabric
    /// `MPICH` or `window, MPICH's libfabric`; under [`WIRE`] the sides of `./dev bench wire`, and `raw`.
    pub(crate) way: String,
    pub(crate) points: Vec<Point>,
}

#[derive(Clone, Copy, Serialize)]
pub(crate) struct Point {
    pub(crate) bytes: usize,
    /// With the quarter marks.
    #[serde(flatten)]
    pub(crate) value: Figure,
}

/// The provider of curves of all transports between two ranks that reach each other by TCP.
pub(crate) const WIRE: &str = "TCP";

/// All curves, each ordered by size.
pub(crate) fn of(read: &Measurements) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    let mut add = |(provider, operation, measure): (&str, &str, &str), way: &str, point: Point| {
        let same = |s: &&mut Series| {
            (&*s.provider, &*s.operation, &*s.measure, &*s.way)
                == (provider, operation, measure, way)
        };
        match series.iter_mut().find(same) {
            Some(found) => found.points.push(point),
            None => series.push(Series {
                provider: provider.into(),
                operation: operation.into(),
                measure: measure.into(),
                way: way.into(),
                points: vec![point],
            }),
        }
    };
    for r in &read.rows {
        let sides = [
            ("raw", r.raw),
            ("transport", r.transport),
            ("window", r.window),
        ];
        for (way, value) in sides {
            let bytes = r.bytes;
            let point = Point { bytes, value };
            add((&r.provider, &r.operation, &r.measure), way, point);
        }
        if r.provider == "tcp;ofi_rxm" && !read.wire.is_empty() {
            let (bytes, value) = (r.bytes, r.raw);
            add(
                (WIRE, &r.operation, &r.measure),
                "raw",
                Point { bytes, value },
            );
        }
    }
    for row in &read.wire {
        let Some((operation, measure, scale)) = curve(&row.name, &row.unit) else {
            continue;
        };
        let numbers = row
            .fields
            .iter()
            .filter(|(side, _)| !["ratio", "limit"].contains(&side.as_str()));
        for (side, value) in numbers.filter_map(|(side, value)| Some((side, value.as_f64()?))) {
            let (bytes, value) = (row.bytes, Figure::of(vec![value * scale]));
            add((WIRE, operation, measure), side, Point { bytes, value });
        }
    }
    let openmpi = ["Open MPI, ours", "Open MPI, its own"];
    let mpich = ["window, MPICH's libfabric", "MPICH"];
    let all = read.pairs.iter().map(|p| (p, openmpi));
    let all = all.chain(read.beside_mpich.iter().map(|p| (p, mpich)));
    for (p, ways) in all.filter(|(p, _)| p.threads == 1) {
        let Some((operation, measure, scale)) = curve(&p.name, &p.unit) else {
            continue;
        };
        // MPICH takes the provider tcp itself; the plots have one place for both.
        let provider = match &*p.provider {
            "tcp" => "tcp;ofi_rxm",
            other => other,
        };
        for (way, runs) in ways.into_iter().zip([&p.ours_runs, &p.c_runs]) {
            let values: Vec<f64> = runs.iter().flatten().map(|value| value * scale).collect();
            if !values.is_empty() {
                let point = Point {
                    bytes: p.bytes,
                    value: Figure::of(values),
                };
                add((provider, operation, measure), way, point);
            }
        }
    }
    for s in &mut series {
        s.points.sort_by_key(|point| point.bytes);
    }
    series
}

/// Operation and measure of a measurement that belongs to a curve, and what its unit is multiplied by.
fn curve<'a>(name: &'a str, unit: &str) -> Option<(&'a str, &'a str, f64)> {
    let scale = match unit {
        "us" => 1e3,
        "MB/s" | "Mop/s" => 1e6,
        _ => return None,
    };
    let (operation, measure) = name.strip_suffix("_of").unwrap_or(name).rsplit_once('_')?;
    // The curves of latencies have names of their own, beside the single points of 8 bytes.
    let single = measure == "latency" && ["put", "get"].contains(&operation);
    let of_curve = name.ends_with("_of") || !single;
    (of_curve && ["latency", "rate", "bandwidth"].contains(&measure))
        .then_some((operation, measure, scale))
}
