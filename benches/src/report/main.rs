//! Puts what the measurements wrote into one report: `report.json` with the targets and the curves, a
//! Markdown table, and plots of latency and bandwidth over size.
//!
//! `report FOLDER --plots FOLDER` reads `overhead-*.json` and `openmpi.json` from a folder and writes
//! beside them. What was not measured is named as missing, not left out.

mod plots;
mod series;
mod targets;

use std::path::{Path, PathBuf};

use benches::target::Target;
use clap::Parser;
use serde::Serialize;

use series::Series;

#[derive(Parser)]
#[command(about = "Make one report of measurements")]
struct Arguments {
    /// Where the measurements are and the report goes.
    folder: PathBuf,
    /// Where the plots go; the same folder by default.
    #[arg(long)]
    plots: Option<PathBuf>,
}

#[derive(Serialize)]
struct Report {
    machine: String,
    targets: Vec<Target>,
    series: Vec<Series>,
}

fn main() -> std::process::ExitCode {
    match report(&Arguments::parse()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("report: {e}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn report(arguments: &Arguments) -> Result<(), String> {
    let read = series::read(&arguments.folder)?;
    let report = Report {
        machine: machine(),
        targets: targets::judge(&read),
        series: read.series,
    };
    let json = serde_json::to_string_pretty(&report).map_err(|e| e.to_string())?;
    write(&arguments.folder.join("report.json"), &json)?;
    let table = table(&report);
    write(&arguments.folder.join("report.md"), &table)?;
    println!("{table}");
    let plots = arguments.plots.as_ref().unwrap_or(&arguments.folder);
    for (provider, name) in [("shm", "shm"), ("tcp;ofi_rxm", "tcp")] {
        for measure in ["latency", "bandwidth"] {
            for operation in ["put", "get"] {
                let path = plots.join(format!("{operation}-{measure}-{name}.svg"));
                if plots::draw(&path, &report.series, provider, operation, measure)? {
                    println!("{}", path.display());
                }
            }
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

/// What the numbers depend on.
fn machine() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown processor", |(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or("unknown");
    format!(
        "{model}, {cores} cores, Linux {}, load {load} at the end",
        kernel.trim()
    )
}

fn table(report: &Report) -> String {
    let mut lines = vec![
        report.machine.clone(),
        String::new(),
        "| target | value | spread | to reach | met |".into(),
        "| --- | --: | --- | --- | --- |".into(),
    ];
    for t in &report.targets {
        let value = t.value.map_or("not measured".into(), |v| format!("{v:.3}"));
        let spread = t
            .spread
            .map_or(String::new(), |(a, b)| format!("{a:.3} to {b:.3}"));
        let met = if t.met { "yes" } else { "no" };
        let (name, bound, target) = (&t.name, t.bound.text(), t.target);
        lines.push(format!(
            "| {name} | {value} {} | {spread} | {bound} {target} | {met} |",
            t.unit
        ));
    }
    lines.join("\n") + "\n"
}
