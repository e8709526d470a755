//! Reads the files of the parts: their runs, and the targets that they judged.

use std::collections::BTreeMap;
use std::path::Path;

use benches::part::Part;
use benches::target::{Bound, Target};

/// The parts with their files.
const PARTS: [(&str, &str); 9] = [
    ("beside raw libfabric", "overhead-shm.json"),
    ("mapped memory", "mapped.json"),
    ("growth", "growth.json"),
    ("instructions", "instructions.json"),
    ("node", "node.json"),
    ("wire", "wire.json"),
    ("applications", "applications.json"),
    ("threads", "threads.json"),
    ("startup", "startup.json"),
];

/// The contents of all files that were found.
#[derive(Default)]
pub(crate) struct Measurements {
    /// The targets of all parts. A part that was not run has one target with its name, which is not
    /// met.
    pub(crate) targets: Vec<Target>,
    /// The run of each file.
    pub(crate) runs: BTreeMap<String, String>,
}

impl Measurements {
    /// Reads all files of a folder.
    pub(crate) fn read(folder: &Path) -> Result<Measurements, String> {
        let mut found = Measurements::default();
        for (part, name) in PARTS {
            let path = folder.join(name);
            let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
            match std::fs::read(&path) {
                Ok(text) => {
                    let part: Part = serde_json::from_slice(&text).map_err(|e| failed(&e))?;
                    found.runs.insert(name.into(), part.run);
                    found.targets.extend(part.targets);
                }
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                    let missing = Target::new(part.into(), None, Bound::Most, 1.0, "times", None);
                    found.targets.push(missing);
                }
                Err(e) => return Err(failed(&e)),
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_named() {
        let read = Measurements::read(Path::new("/no/such/folder")).unwrap();
        assert!(read.targets.iter().all(|t| t.value.is_none() && !t.met));
        assert!(
            read.targets
                .iter()
                .map(|t| &t.name)
                .eq(PARTS.map(|(part, _)| part).iter())
        );
    }
}
