//! Joins the files of the suite's parts to one report: `report.json` with the targets, and a Markdown table.
//!
//! `report FOLDER` reads the parts' files from a folder and writes beside them. The report names rows without a
//! measurement as missing, and names parts that come from another run.

mod about;
mod parts;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use benches::target::Target;
use clap::Parser;
use serde::Serialize;

use about::Machine;
use parts::Measurements;

#[derive(Parser)]
#[command(about = "Make one report of measurements")]
struct Arguments {
    /// The folder of the measurements and the report.
    folder: PathBuf,
}

#[derive(Serialize)]
struct Report {
    machine: Machine,
    /// The run of each file that was read. A report of one run has one name here.
    runs: BTreeMap<String, String>,
    targets: Vec<Target>,
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
    let read = Measurements::read(&arguments.folder)?;
    let report = Report {
        machine: Machine::here(),
        targets: read.targets,
        runs: read.runs,
    };
    let json = serde_json::to_string_pretty(&report).map_err(|e| e.to_string())?;
    write(&arguments.folder.join("report.json"), &json)?;
    let table = table(&report);
    write(&arguments.folder.join("report.md"), &table)?;
    println!("{table}");
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

/// The lines above the table about runs: one name, or the file of each run.
fn runs(of: &BTreeMap<String, String>) -> Vec<String> {
    let named = |run: &str| match run {
        "" => String::from("an unnamed one"),
        run => run.to_owned(),
    };
    let mut different: Vec<&String> = of.values().collect();
    different.sort_unstable();
    different.dedup();
    match different[..] {
        [] => Vec::new(),
        [run] => vec![format!("Run: {}", named(run))],
        _ => {
            let mut lines = vec![String::from("**Of several runs**, not to be compared:")];
            let each = of
                .iter()
                .map(|(file, run)| format!("- {file}: {}", named(run)));
            lines.extend(each);
            lines
        }
    }
}

fn table(report: &Report) -> String {
    let mut lines = vec![report.machine.line(), String::new()];
    lines.extend(runs(&report.runs));
    lines.extend([
        String::new(),
        "| target | value | spread | to reach | met |".into(),
        "| --- | --: | --- | --- | --- |".into(),
    ]);
    for t in &report.targets {
        let value = t
            .value
            .map_or("not measured".into(), |v| format!("{v:.3} {}", t.unit));
        let spread = t
            .spread
            .map_or(String::new(), |(a, b)| format!("{a:.3} to {b:.3}"));
        let met = if t.met { "yes" } else { "no" };
        let (name, bound) = (&t.name, t.bound.text());
        let target = format!("{:.3}", t.target);
        let target = target.trim_end_matches('0').trim_end_matches('.');
        lines.push(format!(
            "| {name} | {value} | {spread} | {bound} {target} | {met} |"
        ));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    #[test]
    fn files_of_several_runs_are_named() {
        let of = |runs: &[(&str, &str)]| {
            let runs = runs.iter().map(|&(file, run)| (file.into(), run.into()));
            super::runs(&runs.collect()).join("\n")
        };
        assert_eq!(of(&[("a.json", "x"), ("b.json", "x")]), "Run: x");
        let several = of(&[("a.json", "x"), ("b.json", "")]);
        assert!(several.contains("several runs"), "{several}");
        assert!(several.contains("b.json: an unnamed one"), "{several}");
    }
}
