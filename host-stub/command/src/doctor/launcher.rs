//! A check of the folders of Open MPI's components that the launcher passes to the ranks.
//!
//! The launcher of Open MPI 5.0 and later passes parameters to the ranks. The launcher of Debian 13 (PRRTE 3.0.8) passes
//! the folder of PMIx's components as the folder of Open MPI's components, so ranks load no component from a file. The
//! launcher passes a value from the environment unchanged.

use std::path::PathBuf;
use std::time::Duration;

use super::Finding;
use crate::run::run;

/// The longest time that mpirun may take to start one process.
const LIMIT: Duration = Duration::from_secs(30);

const NAME: &str = "OMPI_MCA_mca_base_component_path";

/// A finding if ranks would look for the component's `file` in other folders than `ompi_info`, which looks in `folders`. A
/// launcher that does not run, or passes no folders, is no finding.
pub(super) fn look(file: &str, folders: &[PathBuf]) -> Option<Finding> {
    let said = run("mpirun", &["--allow-run-as-root", "-n", "1", "env"], LIMIT).ok()?;
    let passed = said
        .out
        .lines()
        .find_map(|line| line.strip_prefix(NAME)?.strip_prefix('='))?;
    if passed
        .split(':')
        .any(|folder| PathBuf::from(folder).join(file).is_file())
    {
        return None;
    }
    let wanted: Vec<_> = folders
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    Some(
        Finding::problem(
            "launcher",
            format!(
                "mpirun gives its ranks {passed} as the folder of Open MPI's components, so that they do not find {file}. Set \
                 the folder before mpirun"
            ),
        )
        .set(format!("export {NAME}={}", wanted.join(":"))),
    )
}
