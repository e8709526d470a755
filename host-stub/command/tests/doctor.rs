//! Findings of `host-stub doctor`: the Open MPI on the PATH, two installed versions, the plugin, and a home without
//! write access. A script stands for `ompi_info`.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use common::{Place, host_stub};
use host_stub::device::cuda_devices;
use integration_tests::process;
use serde_json::Value;

/// An `ompi_info` of this version, with these folders of components, this list of components for windows, and further lines on its output and
/// its error output.
fn ompi_info(place: &Path, version: &str, folders: &str, list: &str, out: &str, err: &str) {
    let script = format!(
        "#!/bin/sh\n\
         case \"$*\" in\n\
         --version) echo 'Open MPI v{version}' ;;\n\
         *' mca base '*) echo 'mca:mca:base:param:mca_base_component_path:value:\"{folders}\"' ;;\n\
         *' osc all '*)\n\
         echo 'mca:osc:base:param:osc:value:{list}'\n\
         echo 'mca:osc:base:param:osc:source:environment'\n\
         echo '{out}'\n\
         echo '{err}' >&2 ;;\n\
         *) exit 1 ;;\n\
         esac\n"
    );
    program(place, "ompi_info", &script);
}

fn program(place: &Path, name: &str, script: &str) {
    let file = place.join(name);
    fs::write(&file, script).expect("write");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("permissions");
}

const OURS: &str = "mca:osc:ofi_rs:param:osc_ofi_rs_implementation:value:mca-btl-ofi 0.2.0 in Rust";

/// A folder with a file of the component's name.
fn components(place: &Path, name: &str) -> String {
    let folder = place.join(name);
    fs::create_dir_all(&folder).expect("create");
    fs::write(folder.join("mca_osc_ofi_rs.so"), "").expect("write");
    folder.display().to_string()
}

/// The doctor, with `place` as the only folder of programs. The plugin is missing.
fn doctor(place: &Path, arguments: &[&str]) -> Command {
    let mut command = host_stub(["doctor", "--plugin", "/nowhere/plugin.so"]);
    command
        .args(arguments)
        .env("PATH", format!("{}:/bin", place.display()));
    command
}

/// The findings about a subject: verdict, text, lines to paste.
fn findings(command: &mut Command, subject: &str) -> Vec<(String, String, String)> {
    let run = process::run(command.arg("--json"));
    let all: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    all.as_array()
        .expect("a list")
        .iter()
        .filter(|finding| finding["subject"] == subject)
        .map(|finding| {
            let set = finding["set"].as_array().expect("a list");
            let set: Vec<_> = set.iter().map(text).collect();
            (
                text(&finding["verdict"]),
                text(&finding["found"]),
                set.join("\n"),
            )
        })
        .collect()
}

/// The only finding about a subject.
fn finding(command: &mut Command, subject: &str) -> (String, String, String) {
    let mut found = findings(command, subject);
    assert_eq!(found.len(), 1, "{subject}: {found:?}");
    found.remove(0)
}

#[test]
fn a_release_without_a_component_is_named() {
    let place = Place::new("doctor-release");
    ompi_info(&place.0, "4.0.7", "/nowhere", "", "", "");
    let (verdict, found, _) = finding(&mut doctor(&place.0, &[]), "Open MPI");
    assert_eq!(verdict, "problem");
    assert!(
        found.contains("4.0.7") && found.contains("4.1, 5.0 and 6.0"),
        "{found}"
    );
}

#[test]
fn a_list_decides_whether_the_component_serves_windows() {
    let place = Place::new("doctor-list");
    let folder = components(&place.0, "ours");
    let cases = [
        ("", "ok", "ofi_rs serves windows", "mpirun ./your_program"),
        (
            "rdma,ofi_rs",
            "ok",
            "ofi_rs serves windows",
            "mpirun ./your_program",
        ),
        (
            "^ucx,pt2pt",
            "ok",
            "ofi_rs serves windows",
            "mpirun ./your_program",
        ),
        ("rdma,sm", "problem", "ofi_rs is left out", "OMPI_MCA_osc="),
        ("^ofi_rs", "problem", "ofi_rs is left out", "OMPI_MCA_osc="),
    ];
    for (list, verdict, said, set) in cases {
        ompi_info(&place.0, "4.1.4", &folder, list, OURS, "");
        let found = findings(&mut doctor(&place.0, &[]), "component");
        assert_eq!(found.len(), 2, "{list}: {found:?}");
        assert!(
            found[0].1.contains("0.2.0 in Rust") && found[0].1.contains(&folder),
            "{found:?}"
        );
        assert_eq!(found[1].0, verdict, "{list}");
        assert!(found[1].1.contains(said), "{list}: {found:?}");
        assert!(found[1].2.contains(set), "{found:?}");
    }
}

#[test]
fn it_tells_whether_windows_may_lie_in_memory_of_devices() {
    let place = Place::new("doctor-devices");
    let folder = components(&place.0, "ours");
    let own = match cuda_devices() {
        Ok(_) => ("ok", "level 2"),
        Err(_) => ("ok", "level 1"),
    };
    let off = ("note", "osc_ofi_rs_cuda is off, from environment");
    let refused = ("note", "osc_ofi_rs_device_level is 1, from environment");
    for (cuda, level, (verdict, said)) in [
        ("auto", "2", own),
        ("off", "2", off),
        ("auto", "1", refused),
    ] {
        let parameter = |name: &str, value: &str| {
            let key = format!("mca:osc:ofi_rs:param:osc_ofi_rs_{name}");
            format!("{key}:value:{value}\n{key}:source:environment\n")
        };
        let out = [
            OURS,
            "\n",
            &parameter("cuda", cuda),
            &parameter("device_level", level),
        ];
        ompi_info(&place.0, "4.1.4", &folder, "", &out.concat(), "");
        let found = finding(&mut doctor(&place.0, &[]), "devices");
        assert_eq!(found.0, verdict, "{found:?}");
        assert!(found.1.contains(said), "{found:?}");
    }
}

#[test]
fn a_component_that_does_not_load_is_shown_with_what_to_do() {
    let place = Place::new("doctor-broken");
    let folder = components(&place.0, "ours");
    let cases = [
        (
            "unable to open mca_osc_ofi_rs: libfabric.so.1: cannot open shared object file (ignored)",
            "libfabric1",
        ),
        (
            "osc/ofi_rs: this component was built for Open MPI 5.0.x and steps aside",
            "./dev openmpi",
        ),
    ];
    for (complaint, remedy) in cases {
        ompi_info(&place.0, "4.1.4", &folder, "", "", complaint);
        let (verdict, found, set) = finding(&mut doctor(&place.0, &[]), "component");
        assert_eq!(verdict, "problem");
        assert!(found.contains(complaint), "{found}");
        assert!(set.contains(remedy), "{set}");
    }
}

#[test]
fn of_two_installed_versions_the_first_is_named_and_the_second_can_be_had() {
    let place = Place::new("doctor-two");
    let (one, two) = (components(&place.0, "one"), components(&place.0, "two"));
    ompi_info(
        &place.0,
        "4.1.4",
        &format!("{one}:/system:{two}"),
        "",
        OURS,
        "",
    );
    let found = findings(&mut doctor(&place.0, &[]), "component");
    let twice = found
        .iter()
        .find(|f| f.1.starts_with("2 files"))
        .expect("a finding");
    assert_eq!(twice.0, "note");
    assert!(twice.1.contains(&format!("takes {one}")), "{}", twice.1);
    let path = format!("OMPI_MCA_mca_base_component_path={two}:{one}:/system ");
    assert!(twice.2.contains(&path), "{}", twice.2);
}

#[test]
fn a_launcher_that_hides_the_components_is_shown_with_what_to_set() {
    let place = Place::new("doctor-launcher");
    let folder = components(&place.0, "ours");
    ompi_info(&place.0, "5.0.7", &folder, "", OURS, "");
    for (passed, hides) in [("/usr/lib/pmix", true), (folder.as_str(), false)] {
        let env = format!("echo OMPI_MCA_mca_base_component_path={passed}");
        program(&place.0, "mpirun", &format!("#!/bin/sh\n{env}\n"));
        let found = findings(&mut doctor(&place.0, &[]), "launcher");
        assert_eq!(found.len(), usize::from(hides), "{found:?}");
        for (verdict, said, set) in found {
            assert_eq!(verdict, "problem");
            assert!(said.contains(passed), "{said}");
            assert!(
                set.contains(&format!("_mca_base_component_path={folder}")),
                "{set}"
            );
        }
    }
}

#[test]
fn without_open_mpi_and_without_a_home_it_goes_on() {
    let place = Place::new("doctor-bare");
    let mut command = doctor(&place.0, &[]);
    command.env("PATH", &place.0).env("HOME", "/nowhere/home");
    let (verdict, found, _) = finding(&mut command, "Open MPI");
    assert_eq!(verdict, "note");
    assert!(found.contains("not found"), "{found}");
    let mut command = doctor(&place.0, &[]);
    command.env("HOME", "/nowhere/home");
    let (verdict, found, set) = finding(&mut command, "home");
    assert_eq!(verdict, "note");
    assert!(found.contains("/nowhere/home cannot be written"), "{found}");
    assert!(set.contains("--tune"), "{set}");
}

#[test]
fn a_plugin_that_cannot_be_loaded_is_a_problem_and_the_rest_is_shown() {
    let place = Place::new("doctor-plugin");
    let run = process::run(&mut doctor(&place.0, &[]));
    assert_eq!(run.status.code(), Some(1), "{}{}", run.stdout, run.stderr);
    for part in [
        "PROBLEM  providers",
        "/nowhere/plugin.so",
        "/dev/shm",
        "memlock",
    ] {
        assert!(run.stdout.contains(part), "{part} in {}", run.stdout);
    }
}
