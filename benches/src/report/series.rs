//! Reads measurements: those of `overhead` and `growth`, and those of the pairs under Open MPI and
//! beside MPICH.

use std::path::Path;

use benches::target::Target;
use serde::{Deserialize, Serialize};

/// One curve: values over sizes, of one way to do an operation.
#[derive(Serialize)]
pub(crate) struct Series {
    pub(crate) provider: String,
    pub(crate) operation: String,
    /// `latency` in nanoseconds, `rate` in operations per second, or `bandwidth` in bytes per second.
    pub(crate) measure: String,
    /// `raw`, `transport`, `window`, `Open MPI, ours` or `Open MPI, its own`; with MPICH's libfabric
    /// `MPICH` or `window, MPICH's libfabric`.
    pub(crate) way: &'static str,
    /// Bytes and median.
    pub(crate) points: Vec<(usize, f64)>,
}

/// A line that `overhead` wrote.
#[derive(Deserialize)]
pub(crate) struct Row {
    pub(crate) provider: String,
    pub(crate) operation: String,
    pub(crate) measure: String,
    pub(crate) bytes: usize,
    raw: f64,
    transport: f64,
    window: f64,
    pub(crate) ratio: f64,
    pub(crate) spread: (f64, f64),
}

/// A line of pairs: Open MPI's own component, or MPICH, and ours.
#[derive(Deserialize)]
pub(crate) struct Pair {
    pub(crate) provider: String,
    pub(crate) name: String,
    pub(crate) bytes: usize,
    pub(crate) threads: u32,
    unit: String,
    c: Option<f64>,
    ours: Option<f64>,
    pub(crate) ratio: Option<f64>,
    pub(crate) c_runs: Vec<f64>,
    pub(crate) ours_runs: Vec<f64>,
}

#[derive(Deserialize)]
struct Pairs {
    rows: Vec<Pair>,
}

/// What `growth` wrote.
#[derive(Deserialize)]
struct Growth {
    targets: Vec<Target>,
}

pub(crate) struct Measurements {
    pub(crate) rows: Vec<Row>,
    pub(crate) pairs: Vec<Pair>,
    pub(crate) beside_mpich: Vec<Pair>,
    pub(crate) growth: Option<Vec<Target>>,
    pub(crate) series: Vec<Series>,
}

/// Everything that lies in a folder; what does not is missing from the result.
pub(crate) fn read(folder: &Path) -> Result<Measurements, String> {
    let mut rows: Vec<Row> = Vec::new();
    let (mut pairs, mut beside_mpich): (Vec<Pair>, Vec<Pair>) = (Vec::new(), Vec::new());
    let mut growth = None;
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|e| e.to_string())?.path();
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        if name.starts_with("overhead-") && name.ends_with(".json") {
            let text = std::fs::read(&path).map_err(|e| failed(&e))?;
            rows.append(&mut serde_json::from_slice(&text).map_err(|e| failed(&e))?);
        } else if name == "openmpi.json" || name == "mpich.json" {
            let text = std::fs::read(&path).map_err(|e| failed(&e))?;
            let read: Pairs = serde_json::from_slice(&text).map_err(|e| failed(&e))?;
            if name == "mpich.json" {
                beside_mpich = read.rows;
            } else {
                pairs = read.rows;
            }
        } else if name == "growth.json" {
            let text = std::fs::read(&path).map_err(|e| failed(&e))?;
            let read: Growth = serde_json::from_slice(&text).map_err(|e| failed(&e))?;
            growth = Some(read.targets);
        }
    }
    let mut series: Vec<Series> = Vec::new();
    let mut add = |key: (&str, &str, &str, &'static str), bytes: usize, value: f64| {
        let (provider, operation, measure, way) = key;
        let same = |s: &&mut Series| {
            (&*s.provider, &*s.operation, &*s.measure, s.way) == (provider, operation, measure, way)
        };
        match series.iter_mut().find(same) {
            Some(found) => found.points.push((bytes, value)),
            None => series.push(Series {
                provider: provider.into(),
                operation: operation.into(),
                measure: measure.into(),
                way,
                points: vec![(bytes, value)],
            }),
        }
    };
    for r in &rows {
        for (way, value) in [
            ("raw", r.raw),
            ("transport", r.transport),
            ("window", r.window),
        ] {
            add((&r.provider, &r.operation, &r.measure, way), r.bytes, value);
        }
    }
    let openmpi = ["Open MPI, ours", "Open MPI, its own"];
    let mpich = ["window, MPICH's libfabric", "MPICH"];
    let all = pairs.iter().map(|p| (p, openmpi));
    let all = all.chain(beside_mpich.iter().map(|p| (p, mpich)));
    for (p, ways) in all.filter(|(p, _)| p.threads == 1) {
        let name = p.name.strip_suffix("_of").unwrap_or(&p.name);
        let Some((operation, measure)) = name.rsplit_once('_') else {
            continue;
        };
        // The curve of latencies has its own name, beside the single point of 8 bytes.
        let single = p.bytes == 8 && (name == "put_latency" || name == "get_latency");
        if single && p.name == name {
            continue;
        }
        let scale = match p.unit.as_str() {
            "us" => 1e3,
            "MB/s" | "Mop/s" => 1e6,
            _ => continue,
        };
        // MPICH takes the provider tcp itself; the plots have one place for both.
        let provider = match &*p.provider {
            "tcp" => "tcp;ofi_rxm",
            other => other,
        };
        for (way, value) in ways.into_iter().zip([p.ours, p.c]) {
            if let Some(value) = value {
                add((provider, operation, measure, way), p.bytes, value * scale);
            }
        }
    }
    for s in &mut series {
        s.points.sort_by_key(|point| point.0);
    }
    Ok(Measurements {
        rows,
        pairs,
        beside_mpich,
        growth,
        series,
    })
}
