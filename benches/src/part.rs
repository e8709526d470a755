//! The file that a part of the suite writes for the report: its run, its targets, and its figures.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::target::Target;

/// Names the run in the environment of every part.
const RUN: &str = "BENCH_RUN";

/// The fields that the report reads of every part.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Part {
    /// The run that this part belongs to; empty if no run was named.
    #[serde(default)]
    pub run: String,
    /// The targets that the part judged itself.
    #[serde(default)]
    pub targets: Vec<Target>,
}

/// A part together with its own figures.
#[derive(Serialize)]
struct Written<'a, T: Serialize> {
    run: String,
    targets: &'a [Target],
    figures: &'a T,
}

/// The run that this process belongs to.
pub fn run() -> String {
    std::env::var(RUN).unwrap_or_default()
}

/// Writes a part's file.
pub fn write(path: &Path, targets: &[Target], figures: &impl Serialize) -> Result<(), String> {
    let written = Written {
        run: run(),
        targets,
        figures,
    };
    let json = serde_json::to_vec_pretty(&written).map_err(|e| e.to_string())?;
    std::fs::write(path, json).map_err(|e| format!("{}: {e}", path.display()))
}
