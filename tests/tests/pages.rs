//! Statements in the documents that a machine can check: named files, parameters and their defaults, and length.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use integration_tests::fixtures::{host_stub, ofi_plugin};
use integration_tests::process::run;
use integration_tests::repository::{files, root};
use serde_json::Value;

/// The documentation pages with their text.
fn pages() -> Vec<(String, String)> {
    let entries = fs::read_dir(root().join("docs")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    for name in ["README.md", "NOTES.md", "CONTRIBUTING.md"] {
        paths.push(root().join(name));
    }
    let page = |path: PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        (name.to_owned(), fs::read_to_string(&path).unwrap())
    };
    let all: Vec<_> = paths.into_iter().map(page).collect();
    assert!(all.len() > 20, "{} pages", all.len());
    all
}

/// The texts between backquotes in a line.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// A path in backquotes with the ending of a source file is the end of a file's path. Paths without a folder may
/// belong to another project.
#[test]
fn files_that_pages_name_are_there() {
    let sources = files("");
    let ends = [".rs", ".c", ".h", ".hpp", ".py", ".sh", ".cu"];
    let (mut named, mut missing) = (0, Vec::new());
    for (page, text) in pages() {
        for path in text.lines().flat_map(quoted) {
            let is_path = path.contains('/') && ends.iter().any(|end| path.ends_with(end));
            // The path names a header of libfabric.
            if !is_path || path.contains([' ', '*', '<', '{']) || path.starts_with("rdma/") {
                continue;
            }
            named += 1;
            let end = format!("/{path}");
            let mut sources = sources.iter();
            if !sources.any(|source| source == path || source.ends_with(&end)) {
                missing.push(format!("{page}: {path}"));
            }
        }
    }
    assert!(named > 100, "{named} files");
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn parameters_have_the_defaults_of_the_page() {
    let mut command = Command::new(host_stub());
    command.args(["params", "--json", "--plugin"]);
    let outcome = run(command.arg(ofi_plugin()));
    let listed: Vec<Value> = serde_json::from_str(&outcome.stdout).unwrap();
    let default = |name: &str| {
        let mut all = listed.iter();
        all.find(|p| p["name"] == name)
            .map(|p| p["default"].as_str().unwrap())
    };
    let text = fs::read_to_string(root().join("docs/parameters.md")).unwrap();
    let (mut compared, mut wrong) = (0, Vec::new());
    for row in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        // In "0; 2 under Open MPI 6.0", the transport's default comes first.
        let (names, said) = (quoted(cells[1]), cells[2].split(';').next().unwrap());
        for name in names {
            let stub = name.starts_with("btl_ofi_") || name.starts_with("host_");
            match default(name) {
                // The words for "no restriction" stand for an empty list, or for 0 as a limit.
                Some("" | "0") if ["all", "the provider's"].contains(&said) => compared += 1,
                Some(is) if is == said => compared += 1,
                is if stub => wrong.push(format!("{name}: {said:?} on the page, {is:?} declared")),
                _ => {}
            }
        }
    }
    assert!(compared > 15, "{compared} parameters");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Command lines of cargo name packages of the workspace.
#[test]
fn packages_that_pages_name_are_there() {
    let sources = files("");
    let manifests = sources.iter().filter(|path| path.ends_with("/Cargo.toml"));
    let packages: Vec<String> = manifests
        .map(|path| fs::read_to_string(root().join(path)).unwrap())
        .filter_map(|text| Some(text.split_once("[package]\nname = \"")?.1.to_owned()))
        .map(|rest| rest.split('"').next().unwrap().to_owned())
        .collect();
    let (mut named, mut missing) = (0, Vec::new());
    for (page, text) in pages() {
        for line in text.lines().filter(|line| line.contains("cargo ")) {
            let mut words = line.split([' ', '`']);
            while words.by_ref().any(|word| word == "-p") {
                let package = words.next().unwrap_or_default();
                named += 1;
                if !packages.iter().any(|name| name == package) {
                    missing.push(format!("{page}: -p {package}"));
                }
            }
        }
    }
    assert!(named > 5, "{named} packages");
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The overview of the C interface names functions of its headers.
#[test]
fn names_of_the_c_interface_are_there() {
    let include = root().join("host-stub/c/include");
    let texts = fs::read_dir(include).unwrap();
    let mut headers = String::new();
    for path in texts.map(|entry| entry.unwrap().path()) {
        headers.push_str(&fs::read_to_string(path).unwrap());
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let known: HashSet<&str> = headers.split(|c| !is_name(c)).collect();
    let (mut named, mut missing) = (0, Vec::new());
    let text = fs::read_to_string(root().join("docs/host.md")).unwrap();
    for name in text.lines().flat_map(quoted) {
        let is_c = ["host_", "crt_", "HOST_ERR_"]
            .iter()
            .any(|start| name.starts_with(start));
        if is_c && name.chars().all(is_name) {
            named += 1;
            if !known.contains(name) {
                missing.push(name.to_owned());
            }
        }
    }
    assert!(named > 50, "{named} names");
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_index_has_every_page() {
    let index = fs::read_to_string(root().join("NOTES.md")).unwrap();
    let missing: Vec<String> = pages()
        .into_iter()
        .map(|(page, _)| page)
        .filter(|page| page != "NOTES.md" && !index.contains(&format!("{page}](")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// A page is short enough to be read to its end.
#[test]
fn pages_are_short() {
    let long: Vec<String> = pages()
        .iter()
        .map(|(page, text)| (page, text.lines().count()))
        .filter(|(_, lines)| *lines > 250)
        .map(|(page, lines)| format!("{page}: {lines} lines"))
        .collect();
    assert!(long.is_empty(), "{long:#?}");
}
