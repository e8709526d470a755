//! The measured operations, their order, and how they are shown.

use benches::part;
use benches::statistics::Figure;
use benches::target::{Bound, Target};
use host_stub::job::Job;
use serde::Serialize;

use crate::sides::{Kind, Measure, Side, Sides};
use crate::{Arguments, LARGEST};

const SIDES: [Side; 3] = [Side::Raw, Side::Transport, Side::Window];

const SIZES: &[usize] = &[
    1,
    8,
    64,
    512,
    4 << 10,
    32 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    LARGEST,
];
/// The sizes with targets.
const SHORT: &[usize] = &[8, 64 << 10, 256 << 10, 1 << 20, LARGEST];

/// One line of the table.
#[derive(Serialize)]
pub(crate) struct Row {
    provider: String,
    operation: &'static str,
    measure: &'static str,
    bytes: usize,
    unit: &'static str,
    raw: Figure,
    transport: Figure,
    window: Figure,
    /// The ratios of the rounds, transport over raw.
    ratio: Figure,
    /// The ratios of the rounds, window over raw.
    window_ratio: Figure,
}

/// Measures all rows, the sides turn by turn.
pub(crate) fn measure(arguments: &Arguments, sides: &mut Sides) -> Result<Vec<Row>, String> {
    let mut plan = Vec::new();
    let sizes = if arguments.short { SHORT } else { SIZES };
    for kind in [Kind::Put, Kind::Get] {
        for what in [Measure::Rate, Measure::Latency, Measure::Bandwidth] {
            plan.extend(sizes.iter().map(|&size| (kind, what, size)));
        }
    }
    // These take one element; only accumulate takes more.
    for kind in [Kind::FetchAdd, Kind::CompareSwap] {
        plan.push((kind, Measure::Latency, 8));
        plan.push((kind, Measure::Rate, 8));
    }
    for what in [Measure::Rate, Measure::Latency, Measure::Bandwidth] {
        let words = sizes.iter().filter(|&&size| size % 8 == 0);
        plan.extend(words.map(|&size| (Kind::Accumulate, what, size)));
    }
    plan.retain(|&(kind, what, size)| {
        format!("{} {size} B {}", kind.name(), what.name()).contains(&arguments.only)
    });
    plan.into_iter()
        .map(|(kind, what, size)| compare(arguments, sides, kind, what, size))
        .collect()
}

fn compare(
    arguments: &Arguments,
    sides: &mut Sides,
    kind: Kind,
    measure: Measure,
    size: usize,
) -> Result<Row, String> {
    // The number of operations for about 5 ms per side and round, found by a warm-up.
    let mut n = 4;
    loop {
        let seconds = sides.timed(Side::Raw, kind, measure, size, n)?;
        if seconds > 0.0025 || n >= 1 << 18 {
            n = ((f64::from(n) * 0.005 / seconds) as u32).clamp(4, 1 << 18);
            break;
        }
        n *= 4;
    }
    for side in [Side::Transport, Side::Window] {
        sides.timed(side, kind, measure, size, n.min(64))?;
    }
    let mut figures = [const { Vec::<f64>::new() }; 3];
    for round in 0..arguments.rounds {
        // Another side goes first in each turn, so that no side always finds the caches as the same
        // other side left them.
        for turn in 0..SIDES.len() {
            let at = (round + turn) % SIDES.len();
            let seconds = sides.timed(SIDES[at], kind, measure, size, n)?;
            figures[at].push(match measure {
                Measure::Latency => seconds / f64::from(n) * 1e9,
                Measure::Rate => f64::from(n) / seconds,
                Measure::Bandwidth => f64::from(n) * size as f64 / seconds,
            });
        }
    }
    let [raw, transport, window] = figures;
    let ratios = |of: &[f64]| Figure::of(of.iter().zip(&raw).map(|(o, r)| o / r).collect());
    let (ratio, window_ratio) = (ratios(&transport), ratios(&window));
    Ok(Row {
        provider: arguments.provider.clone(),
        operation: kind.name(),
        measure: measure.name(),
        bytes: size,
        unit: match measure {
            Measure::Latency => "ns",
            Measure::Rate => "1/s",
            Measure::Bandwidth => "B/s",
        },
        raw: Figure::of(raw),
        transport: Figure::of(transport),
        window: Figure::of(window),
        ratio,
        window_ratio,
    })
}

/// Prints the table, and writes it to the output file if there is one.
pub(crate) fn report(arguments: &Arguments, job: &Job, rows: &[Row]) -> Result<(), String> {
    let attributes = job.transport().attributes();
    println!(
        "provider {}, {}",
        attributes.provider, attributes.completion
    );
    println!(
        "{:<32} {:>14} {:>14} {:>14} {:>7} {:>15} {:>7}",
        "", "raw", "transport", "window", "t/raw", "spread", "w/raw"
    );
    for r in rows {
        println!(
            "{:<32} {:>14.1} {:>14.1} {:>14.1} {:>7.3} {:>7.3}..{:<6.3} {:>7.3} {}",
            format!("{} {} B {}", r.operation, r.bytes, r.measure),
            r.raw.median,
            r.transport.median,
            r.window.median,
            r.ratio.median,
            r.ratio.low,
            r.ratio.high,
            r.window_ratio.median,
            r.unit
        );
    }
    if let Some(path) = &arguments.output {
        let targets = match arguments.shared {
            true => mapped_targets(rows),
            false => over_raw_targets(&arguments.provider, rows),
        };
        part::write(path, &targets, &rows)?;
    }
    Ok(())
}

/// The time that the transport may take beyond raw calls; within a node over shm, rings replace the provider. A row that this
/// run left out counts as not met.
fn over_raw_targets(provider: &str, rows: &[Row]) -> Vec<Target> {
    let limits = [
        (Measure::Latency, 8, Bound::Most, 1.05),
        (Measure::Rate, 8, Bound::Least, 0.95),
        (Measure::Bandwidth, 64 << 10, Bound::Least, 0.99),
        (Measure::Bandwidth, 256 << 10, Bound::Least, 0.99),
        (Measure::Bandwidth, 1 << 20, Bound::Least, 0.99),
        (Measure::Bandwidth, LARGEST, Bound::Least, 0.99),
    ];
    let kinds = [Kind::Put, Kind::Get].into_iter();
    let each = kinds.flat_map(|kind| limits.map(|limit| (kind, limit)));
    each.filter(|_| provider == "shm")
        .map(|(kind, (measure, bytes, bound, limit))| {
            let is = |r: &&Row| {
                (r.operation, r.measure, r.bytes) == (kind.name(), measure.name(), bytes)
            };
            let ratio = rows.iter().find(is).map(|r| r.ratio);
            Target::new(
                format!(
                    "shm {} {bytes} B {}, transport over raw libfabric",
                    kind.name(),
                    measure.name()
                ),
                ratio.map(|ratio| ratio.median),
                bound,
                limit,
                "times",
                ratio.map(|ratio| ratio.spread()),
            )
        })
        .collect()
}

/// The limits of operations on memory that local peers map, in nanoseconds. The operations are plain instructions; UCX's posix
/// transport needs 160 to 210 for a put and a flush, and 26 for a fetch-add.
fn mapped_targets(rows: &[Row]) -> Vec<Target> {
    let limits = [(Kind::Put, "and flush", 60.0), (Kind::FetchAdd, "", 80.0)];
    let each = limits.into_iter().map(|(kind, more, limit)| {
        let latency = |r: &&Row| {
            (r.operation, r.measure, r.bytes) == (kind.name(), Measure::Latency.name(), 8)
        };
        let found = rows.iter().find(latency).map(|r| &r.transport);
        Target::new(
            format!("mapped memory: {} 8 B {more}", kind.name())
                .trim_end()
                .to_owned(),
            found.map(|figure| figure.median),
            Bound::Most,
            limit,
            "ns",
            found.map(Figure::spread),
        )
    });
    each.collect()
}
