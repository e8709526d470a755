//! Open MPI: its version, which component it would load, and whether its settings admit it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Finding, launcher};
use crate::run::{Said, run};

const SUBJECT: &str = "Open MPI";
const COMPONENT: &str = "component";

/// `ompi_info` opens every component, and needs less than a second where all is well.
const LIMIT: Duration = Duration::from_secs(30);

/// The names that this project's component may have, its own first.
const NAMES: [&str; 2] = ["ofi_rs", "ofi"];

/// The tuning file of the packages, below the folder that holds `bin`.
const TUNE: &str = "share/btl-ofi-rs/ofi_rs.conf";

pub(super) fn look() -> Vec<Finding> {
    let said = match run("ompi_info", &["--version"], LIMIT) {
        Ok(said) => said,
        Err(reason) => {
            return vec![
                Finding::note(
                    SUBJECT,
                    format!("not found ({reason}); host-stub works without it"),
                )
                .set("sudo apt-get install openmpi-bin   # or load the module of Open MPI"),
            ];
        }
    };
    let Some(version) = version(&said.out) else {
        return vec![Finding::problem(
            SUBJECT,
            "ompi_info on the PATH is not Open MPI's: it names no version. Put Open MPI's bin folder first in PATH",
        )];
    };
    if !["4.1.", "5.0.", "6.0."]
        .iter()
        .any(|s| version.starts_with(s))
    {
        return vec![Finding::problem(
            SUBJECT,
            format!(
                "{version}, and the component exists for 4.1, 5.0 and 6.0: it would step aside, and Open MPI would go on with its \
                 own transports. Load one of these releases"
            ),
        )];
    }
    let mut findings = vec![Finding::ok(SUBJECT, version)];
    match settings() {
        Ok(settings) => findings.extend(components(version, &settings)),
        Err(reason) => findings.push(Finding::problem(COMPONENT, reason)),
    }
    findings
}

fn version(text: &str) -> Option<&str> {
    text.lines()
        .find_map(|line| line.strip_prefix("Open MPI v"))
        .map(str::trim)
}

/// What decides about components.
struct Settings {
    /// The folders with components, in the order in which Open MPI looks.
    folders: Vec<PathBuf>,
    /// The list of BTLs, and where it was set.
    btl: String,
    source: String,
    /// Every BTL that loads, with its parameters, and the complaints about others.
    btls: Said,
}

fn settings() -> Result<Settings, String> {
    let paths = parameters("mca", "base")?;
    let btls = parameters("btl", "all")?;
    let folders = field(
        &paths.out,
        "mca:mca:base:param:mca_base_component_path:value:",
    )
    .ok_or("ompi_info does not tell mca_base_component_path")?;
    Ok(Settings {
        folders: folders.split(':').map(PathBuf::from).collect(),
        btl: field(&btls.out, "mca:btl:base:param:btl:value:").unwrap_or_default(),
        source: field(&btls.out, "mca:btl:base:param:btl:source:").unwrap_or_default(),
        btls,
    })
}

fn parameters(framework: &str, component: &str) -> Result<Said, String> {
    run(
        "ompi_info",
        &[
            "--parsable",
            "--param",
            framework,
            component,
            "--level",
            "9",
        ],
        LIMIT,
    )
}

/// The rest of the line that begins with `key`, without quotes.
fn field(text: &str, key: &str) -> Option<String> {
    text.lines()
        .find_map(|line| line.strip_prefix(key))
        .map(|value| value.trim().trim_matches('"').to_owned())
}

fn components(version: &str, settings: &Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut ours = None;
    for name in NAMES {
        let file = format!("mca_btl_{name}.so");
        let found: Vec<_> = settings
            .folders
            .iter()
            .map(|folder| folder.join(&file))
            .filter(|path| path.is_file())
            .collect();
        if found.is_empty() {
            continue;
        }
        findings.extend(one(name, &found, settings));
        if implementation(&settings.btls, name).is_some() && ours.is_none() {
            ours = Some(name);
        }
    }
    match ours {
        Some(name) => {
            findings.push(admitted(name, settings));
            // 4.1 has a launcher of its own, which passes on what the user set and nothing else.
            if !version.starts_with("4.1.") {
                findings.extend(launcher::look(name, &settings.folders));
            }
        }
        None if findings.iter().any(|f| f.verdict == super::Verdict::Problem) => {}
        None => findings.push(
            Finding::note(
                COMPONENT,
                "not installed: Open MPI uses its own transports for windows",
            )
            .set("sudo apt-get install ./openmpi-btl-ofi-rs_*.deb   # or: ./install.sh --prefix FOLDER, from the tarball"),
        ),
    }
    findings
}

/// The component's own line, which the C component does not have.
fn implementation(said: &Said, name: &str) -> Option<String> {
    field(
        &said.out,
        &format!("mca:btl:{name}:param:btl_{name}_implementation:value:"),
    )
}

/// What Open MPI makes of the files of one name; `found` is not empty.
fn one(name: &str, found: &[PathBuf], settings: &Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    let said = &settings.btls;
    let first = found.first().map(|path| path.display().to_string());
    let first = first.unwrap_or_default();
    let marks = [format!("mca_btl_{name}:"), format!("btl/{name}:")];
    let complaint = said
        .err
        .lines()
        .find(|line| marks.iter().any(|mark| line.contains(mark)));
    match (implementation(said, name), complaint) {
        (Some(implementation), _) => findings.push(Finding::ok(
            COMPONENT,
            format!("{name}: {implementation}, from {first}"),
        )),
        (None, Some(complaint)) => findings.push(
            Finding::problem(
                COMPONENT,
                format!("{first} does not load, and Open MPI goes on without it: {complaint}"),
            )
            .set(remedy(complaint)),
        ),
        // Open MPI's own component of this name.
        (None, None) => {}
    }
    if found.len() > 1 && implementation(said, name).is_some() {
        let others: Vec<_> = found
            .iter()
            .skip(1)
            .map(|p| p.display().to_string())
            .collect();
        findings.push(
            Finding::note(
                COMPONENT,
                format!(
                    "{} files have the name {name}; Open MPI takes {first} and not {}. Remove one, or name the folder of the \
                     wanted one first",
                    found.len(),
                    others.join(", ")
                ),
            )
            .set(order(found, &settings.folders)),
        );
    }
    findings
}

/// The setting that makes Open MPI look first into the folder that comes second now.
fn order(found: &[PathBuf], folders: &[PathBuf]) -> String {
    let wanted = found.get(1).and_then(|path| path.parent());
    let list: Vec<_> = wanted
        .into_iter()
        .chain(
            folders
                .iter()
                .map(PathBuf::as_path)
                .filter(|folder| Some(*folder) != wanted),
        )
        .map(|folder| folder.display().to_string())
        .collect();
    format!(
        "export OMPI_MCA_mca_base_component_path={}   # takes the second",
        list.join(":")
    )
}

fn remedy(complaint: &str) -> &'static str {
    if complaint.contains("libfabric.so") {
        "sudo apt-get install libfabric1   # or put the folder of libfabric.so.1 into LD_LIBRARY_PATH"
    } else if complaint.contains("steps aside") || complaint.contains("libopen-pal") {
        "./dev openmpi   # in the sources: builds the component for the Open MPI on the PATH"
    } else {
        "sudo apt-get install --reinstall ./openmpi-btl-ofi-rs_*.deb"
    }
}

/// Whether the list of BTLs lets the component in, and what to say if not.
fn admitted(name: &str, settings: &Settings) -> Finding {
    let list = settings.btl.trim();
    let (excludes, names) = match list.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, list),
    };
    let listed = names.split(',').any(|entry| entry.trim() == name);
    let run = format!("mpirun --mca btl self,vader,{name} ./your_program");
    if list.is_empty() || listed != excludes {
        let why = match list {
            "" => "no list of BTLs is set".to_owned(),
            list => format!("the list of BTLs is {list}, from {}", settings.source),
        };
        let taken = format!(
            "{name} is considered ({why}). If it finds a provider (below), osc/rdma takes it: it declares the lowest latency"
        );
        let finding = Finding::ok(COMPONENT, taken).set(run);
        return match tune() {
            Some(file) => finding.set(format!("mpirun --tune {} ./your_program", file.display())),
            None => finding,
        };
    }
    Finding::note(
        COMPONENT,
        format!(
            "{name} is left out: the list of BTLs is {list}, from {}",
            settings.source
        ),
    )
    .set(run)
}

/// The tuning file that was installed with this program or with the component.
fn tune() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok();
    let prefix = beside
        .as_deref()
        .and_then(Path::parent)
        .and_then(Path::parent);
    prefix
        .into_iter()
        .chain([Path::new("/usr")])
        .map(|prefix| prefix.join(TUNE))
        .find(|file| file.is_file())
}
