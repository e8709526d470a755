//! What is measured, in which order, and how it is shown.

use benches::statistics::{quantile, spread};
use host_stub::job::Job;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::sides::{Kind, Measure, Side, Sides};
use crate::{Arguments, LARGEST};

const SIDES: [Side; 3] = [Side::Raw, Side::Transport, Side::Window];

/// One line of the table.
#[derive(Serialize)]
pub(crate) struct Row {
    provider: String,
    operation: &'static str,
    measure: &'static str,
    bytes: usize,
    unit: &'static str,
    raw: f64,
    transport: f64,
    window: f64,
    /// Median of the rounds' own ratios, transport over raw.
    ratio: f64,
    /// Quarter and three-quarter marks of those.
    spread: (f64, f64),
    /// The same for the window.
    window_ratio: f64,
    window_spread: (f64, f64),
}

/// Measures everything, the sides turn by turn.
pub(crate) fn measure(arguments: &Arguments, sides: &mut Sides) -> Result<Vec<Row>, String> {
    let mut plan = Vec::new();
    let sizes: &[usize] = if arguments.short {
        &[8, 64 << 10, 1 << 20, LARGEST]
    } else {
        &[
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
        ]
    };
    for kind in [Kind::Put, Kind::Get] {
        plan.push((kind, Measure::Rate, 8));
        plan.extend(sizes.iter().map(|&size| (kind, Measure::Latency, size)));
        plan.extend(sizes.iter().map(|&size| (kind, Measure::Bandwidth, size)));
    }
    for kind in [Kind::FetchAdd, Kind::CompareSwap, Kind::Accumulate] {
        plan.push((kind, Measure::Latency, 8));
        plan.push((kind, Measure::Rate, 8));
    }
    let bar = ProgressBar::new((plan.len() * arguments.rounds) as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    bar.set_message(arguments.provider.clone());
    let rows = plan
        .into_iter()
        .map(|(kind, what, size)| compare(arguments, sides, kind, what, size, &bar))
        .collect();
    bar.finish_and_clear();
    rows
}

fn compare(
    arguments: &Arguments,
    sides: &mut Sides,
    kind: Kind,
    measure: Measure,
    size: usize,
    bar: &ProgressBar,
) -> Result<Row, String> {
    // About 5 ms a side and round, found with a warm-up.
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
        // Who goes first changes, so that nobody always finds the caches of the same other.
        for turn in 0..SIDES.len() {
            let at = (round + turn) % SIDES.len();
            let seconds = sides.timed(SIDES[at], kind, measure, size, n)?;
            figures[at].push(match measure {
                Measure::Latency => seconds / f64::from(n) * 1e9,
                Measure::Rate => f64::from(n) / seconds,
                Measure::Bandwidth => f64::from(n) * size as f64 / seconds,
            });
        }
        bar.inc(1);
    }
    let [mut raw, mut transport, mut window] = figures;
    let ratios = |of: &[f64]| {
        of.iter()
            .zip(&raw)
            .map(|(o, r)| o / r)
            .collect::<Vec<f64>>()
    };
    let (mut ratio, mut window_ratio) = (ratios(&transport), ratios(&window));
    let (measure, unit) = match measure {
        Measure::Latency => ("latency", "ns"),
        Measure::Rate => ("rate", "1/s"),
        Measure::Bandwidth => ("bandwidth", "B/s"),
    };
    Ok(Row {
        provider: arguments.provider.clone(),
        operation: match kind {
            Kind::Put => "put",
            Kind::Get => "get",
            Kind::FetchAdd => "fetch-add",
            Kind::CompareSwap => "compare-swap",
            Kind::Accumulate => "accumulate",
        },
        measure,
        bytes: size,
        unit,
        raw: quantile(&mut raw, 0.5),
        transport: quantile(&mut transport, 0.5),
        window: quantile(&mut window, 0.5),
        ratio: quantile(&mut ratio, 0.5),
        spread: spread(&mut ratio),
        window_ratio: quantile(&mut window_ratio, 0.5),
        window_spread: spread(&mut window_ratio),
    })
}

/// Prints the table, and writes it where that is asked for.
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
            r.raw,
            r.transport,
            r.window,
            r.ratio,
            r.spread.0,
            r.spread.1,
            r.window_ratio,
            r.unit
        );
    }
    if let Some(path) = &arguments.output {
        let json = serde_json::to_vec_pretty(rows).map_err(|e| e.to_string())?;
        std::fs::write(path, json).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}
