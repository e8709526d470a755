//! The examples of host-stub in Rust; each checks its own results.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use integration_tests::fixtures::{host_stub, ofi_plugin};
use integration_tests::process::run;

/// The program of an example. The first call builds all examples with the command that builds all tests, because another
/// choice of packages would compile their dependencies again.
fn built(name: &str) -> &'static Path {
    static PROGRAMS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    PROGRAMS
        .get_or_init(|| {
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let built = Command::new(cargo)
                .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
                .args(["build", "--quiet", "--message-format=json"])
                .args(["--workspace", "--examples"])
                .output()
                .unwrap();
            assert!(built.status.success(), "{built:?}");
            String::from_utf8_lossy(&built.stdout)
                .lines()
                .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
                .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
                .collect()
        })
        .iter()
        .find(|program| program.file_name().is_some_and(|file| file == name))
        .unwrap_or_else(|| panic!("there is no example {name}"))
}

/// Runs an example as two ranks and as three, with and without shared memory; each rank prints `words`.
fn example(name: &str, parameters: &[&str], words: &str) {
    let program = built(name);
    for (ranks, provider, same_node) in [("2", "shm", "auto"), ("3", "tcp;ofi_rxm", "off")] {
        let outcome = run(Command::new(host_stub())
            .args(["launch", "-n", ranks, "--provider", provider, "--plugin"])
            .arg(ofi_plugin())
            .args(["--mca", "btl_ofi_same_node", same_node])
            .args(parameters)
            .arg("--")
            .arg(program));
        let said = outcome.transcript();
        assert!(
            outcome.status.success(),
            "{name}, {ranks} ranks over {provider}: {said}"
        );
        let times = outcome.stdout.matches(words).count();
        assert_eq!(times.to_string(), ranks, "{name} over {provider}: {said}");
    }
}

#[test]
fn hello() {
    example("hello", &[], " has 10");
}

#[test]
fn halo() {
    example("halo", &[], "has the heat of one process");
}

#[test]
fn hash_table() {
    example("hash_table", &[], " keys");
}

#[test]
fn counter() {
    example("counter", &[], "of 1000 tasks");
}

#[test]
fn matrix() {
    example("matrix", &[], "rows of the transposed matrix");
}

#[test]
fn device_window() {
    let device = ["--mca", "host_pretended_devices", "1"];
    example("device_window", &device, "device support level 4");
}
