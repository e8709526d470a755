//! The examples in C over `libhost_stub.so`, compiled with every warning an error.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test reports by panicking, in its helpers too"
)]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use integration_tests::fixtures::{c_plugin, host_library, host_stub};
use integration_tests::process::run;

const LIMIT: Duration = Duration::from_secs(60);

/// Compiles an example, and runs it as a job of each number of ranks.
fn example(name: &str, ranks: &[u32]) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host-stub/c");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("example-{name}"));
    let library = host_library().parent().unwrap();
    let output = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"])
        .arg("-I")
        .arg(here.join("include"))
        .arg(here.join(format!("examples/{name}.c")))
        .arg("-o")
        .arg(&out)
        .arg("-L")
        .arg(library)
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .arg("-lhost_stub")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {said}");
    for count in ranks {
        let outcome = run(
            Command::new(host_stub())
                .args(["launch", "-n", &count.to_string(), "--plugin"])
                .arg(c_plugin(""))
                .arg("--")
                .arg(&out),
            LIMIT,
        );
        let passed = outcome.stdout.matches("passed\n").count();
        assert_eq!(
            passed,
            *count as usize,
            "{name}, {count} ranks: {}",
            outcome.transcript()
        );
    }
}

#[test]
fn windows_of_two_tables_side_by_side_and_a_hook() {
    example("windows", &[2, 4]);
}

#[test]
fn communicators_collectives_and_an_overriding_layer() {
    example("collectives", &[2, 4]);
}
