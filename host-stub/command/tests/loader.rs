//! The command's messages about a plugin and parameters, and the files that plugins leave. The refused files, and the
//! texts of the refusals, are tested by `loader.rs` of the integration tests.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::host_stub;
use host_stub::loader::{Component, HostServices, LoadError, Plugin};
use host_stub::params::Params;
use integration_tests::fixtures::c_plugin;
use integration_tests::process;
use integration_tests::repository::{files, root};
use plugin_api::{ABI_MAJOR, ABI_MINOR, ThreadLevel};

fn services() -> HostServices {
    HostServices {
        params: Arc::new(Params::from_system(&[]).expect("parameters")),
        published: Arc::default(),
    }
}

fn open(path: &Path) -> Result<Arc<Plugin>, LoadError> {
    // SAFETY: these tests build or write the files.
    unsafe { Plugin::open(path, services()) }
}

#[test]
fn the_command_exits_with_its_code_for_a_plugin_that_cannot_be_loaded() {
    for plugin in [PathBuf::from("/no/such/plugin.so"), c_plugin("BAD_MAJOR")] {
        for command in ["info", "params"] {
            let arguments = [command.as_ref(), "--plugin".as_ref(), plugin.as_os_str()];
            let run = process::run(&mut host_stub(arguments));
            assert_eq!(run.status.code(), Some(3), "{}", run.stderr);
            assert!(run.stderr.contains(&plugin.display().to_string()));
            assert_eq!(run.stdout, "");
        }
    }
}

#[test]
fn info_and_params_print_json() {
    let plugin = c_plugin("");
    let run = |command: &str, more: &[&str]| {
        let mut command = host_stub([command, "--json", "--plugin"]);
        command.arg(&plugin).args(more);
        let run = process::run(&mut command);
        assert_eq!(run.status.code(), Some(0), "{}", run.stderr);
        serde_json::from_str::<serde_json::Value>(&run.stdout).expect("JSON")
    };
    let info = run("info", &[]);
    assert_eq!(info["abi"], format!("{ABI_MAJOR}.{ABI_MINOR}"));
    assert_eq!(info["component"], "cma");
    assert!(info["modules"][0]["handle_size"].as_u64() > Some(0));
    let params = run("params", &["--mca", "host_verbose", "2"]);
    let verbose = params
        .as_array()
        .expect("a list")
        .iter()
        .find(|entry| entry["name"] == "host_verbose")
        .expect("the host's own");
    assert_eq!(verbose["value"], "2");
    assert_eq!(verbose["default"], "1");
}

/// `params` has every parameter that a source of the host declares.
#[test]
fn params_lists_every_parameter_of_the_host() {
    let mut command = host_stub(["params", "--json", "--plugin"]);
    let run = process::run(command.arg(c_plugin("")));
    assert_eq!(run.status.code(), Some(0), "{}", run.stderr);
    let listed: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    let listed: Vec<&str> = listed
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|entry| entry["name"].as_str())
        .collect();
    let mut declared = Vec::new();
    let sources = files("host-stub/src").into_iter();
    for source in sources.filter(|path| path.ends_with(".rs")) {
        let source = std::fs::read_to_string(root().join(source)).expect("read");
        let declarations = source.split("Declaration::new(").skip(1);
        declared.extend(declarations.map(|rest| {
            let name = rest.split('"').nth(1).expect("a name");
            name.to_owned()
        }));
    }
    assert!(declared.len() > 10, "{declared:?}");
    for name in declared {
        assert!(listed.contains(&name.as_str()), "{name} in {listed:?}");
    }
}

/// `params` and a job report a mistyped name, but not a name that the job declares later.
#[test]
fn a_mistyped_parameter_of_the_host_is_told_of() {
    let plugin = c_plugin("");
    let mistyped = [
        ("OMPI_MCA_host_coll_nod", "0"),
        ("OMPI_MCA_host_win_huge_pages", "1"),
    ];
    let unknown = "unknown parameter host_coll_nod in environment variable OMPI_MCA_host_coll_nod; did you mean host_coll_node?";
    for arguments in [
        &["params"][..],
        &["check", "--np", "1", "--only", "no/such"],
    ] {
        let mut command = host_stub(arguments);
        command.arg("--plugin").arg(&plugin).envs(mistyped);
        let run = process::run(&mut command);
        let said = run.stderr;
        assert_eq!(said.matches("unknown parameter").count(), 1, "{said}");
        assert!(said.contains(unknown), "{said}");
    }
}

#[test]
fn a_parameter_that_does_not_parse_is_a_usage_error() {
    let plugin = c_plugin("");
    for (arguments, environment) in [
        (&["--mca", "host_verbose", "loud"][..], None),
        (&[], Some(("OMPI_MCA_host_verbose", "loud"))),
    ] {
        let mut command = host_stub(["info", "--plugin"]);
        command.arg(&plugin).args(arguments).envs(environment);
        let run = process::run(&mut command);
        assert_eq!(run.status.code(), Some(2), "{}", run.stderr);
        for word in ["host_verbose", "loud", "0 to 3"] {
            assert!(run.stderr.contains(word), "{}", run.stderr);
        }
    }
}

/// Descriptors open in this process, and its resident memory in kilobytes.
fn held() -> (usize, u64) {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("read").count();
    let status = std::fs::read_to_string("/proc/self/status").expect("read");
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok())
        .expect("VmRSS");
    (descriptors, resident)
}

/// The test runs in a separate process, so that descriptors of other tests do not count.
#[test]
fn nothing_is_left_of_plugins_opened_and_closed() {
    let mut command = std::process::Command::new(std::env::current_exe().expect("this program"));
    command
        .args([
            "--exact",
            "open_and_close",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("OMPI_MCA_mca_base_param_files", "none");
    let run = process::run(&mut command);
    assert_eq!(run.status.code(), Some(0), "{}{}", run.stdout, run.stderr);
}

#[test]
#[ignore = "run by nothing_is_left_of_plugins_opened_and_closed"]
fn open_and_close() {
    let good = c_plugin("");
    let bad = c_plugin("BAD_MODULE_MAJOR");
    let once = |path: &Path| {
        let component = Component::open(open(path).expect("open")).expect("component");
        // SAFETY: the level Multiple requires nothing of the caller.
        let _ = unsafe { component.init(ThreadLevel::Multiple) };
    };
    for _ in 0..20 {
        once(&good);
        once(&bad);
    }
    let before = held();
    for _ in 0..500 {
        once(&good);
        once(&bad);
    }
    let after = held();
    assert_eq!(after.0, before.0, "descriptors");
    assert!(after.1 < before.1 + 1024, "{before:?} became {after:?} kB");
}
