//! Open MPI: its version, the component that it would load, and the settings that may exclude the
//! component.

use std::path::PathBuf;
use std::time::Duration;

use host_stub::device::cuda_devices;

use super::{Finding, launcher};
use crate::run::{Said, run};

const SUBJECT: &str = "Open MPI";
const COMPONENT: &str = "component";
const DEVICES: &str = "devices";

/// `ompi_info` opens every component, and usually needs less than a second.
const LIMIT: Duration = Duration::from_secs(30);

/// The component for windows, and its file.
const NAME: &str = "ofi_rs";
const FILE: &str = "mca_osc_ofi_rs.so";

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

/// The settings that decide about components.
struct Settings {
    /// The folders with components, in the order in which Open MPI looks.
    folders: Vec<PathBuf>,
    /// The list of components for windows, and where it was set.
    list: String,
    source: String,
    /// Every component for windows that loads, with its parameters, and the complaints about others.
    loaded: Said,
}

fn settings() -> Result<Settings, String> {
    let paths = parameters("mca", "base")?;
    let loaded = parameters("osc", "all")?;
    let folders = field(
        &paths.out,
        "mca:mca:base:param:mca_base_component_path:value:",
    )
    .ok_or("ompi_info does not tell mca_base_component_path")?;
    Ok(Settings {
        folders: folders.split(':').map(PathBuf::from).collect(),
        list: field(&loaded.out, "mca:osc:base:param:osc:value:").unwrap_or_default(),
        source: field(&loaded.out, "mca:osc:base:param:osc:source:").unwrap_or_default(),
        loaded,
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
    let found: Vec<_> = settings
        .folders
        .iter()
        .map(|folder| folder.join(FILE))
        .filter(|path| path.is_file())
        .collect();
    let Some(first) = found.first().map(|path| path.display().to_string()) else {
        return vec![
            Finding::note(
                COMPONENT,
                "not installed: Open MPI's own components make its windows",
            )
            .set("sudo apt-get install ./openmpi-ofi-rs_*.deb   # or: ./install.sh --prefix FOLDER, from the tarball"),
        ];
    };
    let said = &settings.loaded;
    let implementation = field(
        &said.out,
        "mca:osc:ofi_rs:param:osc_ofi_rs_implementation:value:",
    );
    let Some(implementation) = implementation else {
        let complaint = said.err.lines().find(|line| line.contains(NAME));
        let complaint = complaint.unwrap_or("ompi_info does not say why");
        return vec![
            Finding::problem(
                COMPONENT,
                format!("{first} does not load, and Open MPI goes on without it: {complaint}"),
            )
            .set(remedy(complaint)),
        ];
    };
    let mut findings = vec![Finding::ok(
        COMPONENT,
        format!("{NAME}: {implementation}, from {first}"),
    )];
    if found.len() > 1 {
        let others = found.iter().skip(1).map(|path| path.display().to_string());
        findings.push(
            Finding::note(
                COMPONENT,
                format!(
                    "{} files have the name {NAME}; Open MPI takes {first} and not {}. Remove one, or name the folder of the \
                     wanted one first",
                    found.len(),
                    others.collect::<Vec<_>>().join(", ")
                ),
            )
            .set(order(&found, &settings.folders)),
        );
    }
    findings.push(admitted(settings));
    findings.extend(devices(said));
    // 4.1 has its own launcher, which passes only the user's settings.
    if !version.starts_with("4.1.") {
        findings.extend(launcher::look(FILE, &settings.folders));
    }
    findings
}

/// Whether windows may lie in memory of devices, with the reason if not. No finding for a component that has no
/// parameters for devices.
fn devices(said: &Said) -> Option<Finding> {
    let parameter = |name: &str, what: &str| {
        let name = format!("osc_ofi_rs_{name}");
        field(&said.out, &format!("mca:osc:ofi_rs:param:{name}:{what}:"))
    };
    let is_off = [("cuda", "off"), ("device_level", "1")]
        .into_iter()
        .find(|(name, off)| parameter(name, "value").as_deref() == Some(off));
    parameter("cuda", "value")?;
    Some(match (is_off, cuda_devices()) {
        (Some((name, off)), _) => {
            let source = parameter(name, "source").unwrap_or_default();
            let why = format!("osc_ofi_rs_{name} is {off}, from {source}");
            Finding::note(DEVICES, format!("level 1, windows of host memory: {why}"))
        }
        (None, Ok(count)) => Finding::ok(
            DEVICES,
            format!("level 2, windows also of memory of {count} CUDA device(s)"),
        ),
        (None, Err(why)) => Finding::ok(DEVICES, format!("level 1, windows of host memory: {why}")),
    })
}

/// The setting by which Open MPI looks first into the folder that is second now.
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
        "sudo apt-get install --reinstall ./openmpi-ofi-rs_*.deb"
    }
}

/// Checks that the list of components for windows admits this component.
fn admitted(settings: &Settings) -> Finding {
    let list = settings.list.trim();
    let (excludes, names) = match list.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, list),
    };
    let listed = names.split(',').any(|entry| entry.trim() == NAME);
    let why = match list {
        "" => "osc, the list of components for windows, is not set".to_owned(),
        list => format!(
            "osc, the list of components for windows, is {list}, from {}",
            settings.source
        ),
    };
    if list.is_empty() || listed != excludes {
        let serves = format!("{NAME} serves windows ({why})");
        return Finding::ok(COMPONENT, serves).set("mpirun ./your_program");
    }
    Finding::problem(COMPONENT, format!("{NAME} is left out: {why}"))
        .set("export OMPI_MCA_osc=^pt2pt   # or change the list where it stands")
}
