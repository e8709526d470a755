//! Reads the files of the parts: those of `overhead`, the pairs under Open MPI, and of every other
//! part the targets that it judged itself.

use std::collections::BTreeMap;
use std::path::Path;

use benches::part::Part;
use benches::statistics::Figure;
use serde::Deserialize;

/// A line that `overhead` wrote.
#[derive(Deserialize)]
pub(crate) struct Row {
    pub(crate) provider: String,
    pub(crate) operation: String,
    pub(crate) measure: String,
    pub(crate) bytes: usize,
    pub(crate) ratio: Figure,
}

#[derive(Deserialize)]
struct Overhead {
    #[serde(default)]
    run: String,
    figures: Vec<Row>,
}

/// A line of pairs: Open MPI's own component and ours.
#[derive(Clone, Deserialize)]
pub(crate) struct Pair {
    pub(crate) provider: String,
    pub(crate) name: String,
    pub(crate) bytes: usize,
    pub(crate) threads: u32,
    /// The medians' ratio, ours over the other's.
    pub(crate) ratio: Option<f64>,
    /// Of each pair in order; none where that run failed.
    pub(crate) c_runs: Vec<Option<f64>>,
    pub(crate) ours_runs: Vec<Option<f64>>,
}

#[derive(Deserialize)]
struct Pairs {
    #[serde(default)]
    run: String,
    machine: BTreeMap<String, serde_json::Value>,
    rows: Vec<Pair>,
}

/// Parts that judge themselves, with their files.
pub(crate) const JUDGED: [(&str, &str); 8] = [
    ("mapped memory", "mapped.json"),
    ("growth", "growth.json"),
    ("instructions", "instructions.json"),
    ("node", "node.json"),
    ("wire", "wire.json"),
    ("applications", "applications.json"),
    ("threads", "threads.json"),
    ("startup", "startup.json"),
];

/// Everything that was found.
#[derive(Default)]
pub(crate) struct Measurements {
    pub(crate) rows: Vec<Row>,
    pub(crate) pairs: Vec<Pair>,
    /// Of each of [`JUDGED`], what it judged; none where it was not run.
    pub(crate) judged: Vec<Option<Part>>,
    /// The run of each file.
    pub(crate) runs: BTreeMap<String, String>,
    /// What the pairs were made with.
    pub(crate) versions: BTreeMap<String, String>,
}

/// A file's contents; none where there is no such file.
fn json<T: for<'a> Deserialize<'a>>(folder: &Path, name: &str) -> Result<Option<T>, String> {
    let path = folder.join(name);
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(&e)),
    };
    serde_json::from_slice(&text)
        .map(Some)
        .map_err(|e| failed(&e))
}

/// The files of `overhead`, one for each provider, in the order of their names.
fn of_overhead(folder: &Path) -> Result<Vec<String>, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if let Some(name) = name.to_str()
            && name.starts_with("overhead-")
            && name.ends_with(".json")
        {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

impl Measurements {
    /// Everything that lies in a folder; what does not is missing from the result.
    pub(crate) fn read(folder: &Path) -> Result<Measurements, String> {
        let mut found = Measurements::default();
        for name in of_overhead(folder)? {
            if let Some(mut part) = json::<Overhead>(folder, &name)? {
                found.runs.insert(name, part.run);
                found.rows.append(&mut part.figures);
            }
        }
        if let Some(part) = json::<Pairs>(folder, "openmpi.json")? {
            found.runs.insert("openmpi.json".into(), part.run);
            for (what, version) in &part.machine {
                // The rest of it is the machine's, which is looked at here.
                if ["openmpi", "libfabric"].contains(&&**what)
                    && let Some(version) = version.as_str()
                {
                    found.versions.insert(what.clone(), version.into());
                }
            }
            found.pairs = part.rows;
        }
        for (_, name) in JUDGED {
            let part = json::<Part>(folder, name)?;
            if let Some(part) = &part {
                found.runs.insert(name.into(), part.run.clone());
            }
            found.judged.push(part);
        }
        Ok(found)
    }
}
