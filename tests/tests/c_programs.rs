//! The C host over both plugins, and the C plugin under both versions of the host.

use std::path::Path;
use std::process::Command;

use integration_tests::fixtures::{
    PROVIDERS, c_plugin, c_program, host_stub, ofi_plugin, valgrind,
};
use integration_tests::process::{Outcome, run};
use plugin_api::ABI_MINOR;

fn host(program: &str, arguments: &[&str], plugin: &Path, settings: &[&str]) -> Outcome {
    run(Command::new(c_program(program))
        .args(arguments)
        .arg(plugin)
        .args(settings))
}

/// Asserts that both processes counted their checks and none failed; returns their output.
fn passes(program: &str, plugin: &Path, settings: &[&str]) -> String {
    let outcome = host(program, &[], plugin, settings);
    let said = outcome.transcript();
    assert!(outcome.status.success(), "{said}");
    for rank in 0..2 {
        let counted = outcome
            .stdout
            .lines()
            .find_map(|line| {
                line.strip_prefix(&format!("rank {rank}: "))?
                    .strip_suffix(" passed, 0 failed")
            })
            .unwrap_or_else(|| panic!("rank {rank} does not end with its count: {said}"));
        let counted: u32 = counted.parse().unwrap();
        assert!(counted > 60, "rank {rank} checked too little: {said}");
    }
    outcome.stdout
}

#[test]
fn c_host_over_c_plugin() {
    // Callbacks wait for progress; operations complete immediately; at depth 1, almost no callback
    // may wait.
    for depth in ["64", "0", "1"] {
        passes(
            "host",
            &c_plugin(""),
            &[&format!("btl_cma_queue_depth={depth}")],
        );
    }
}

/// Windows over the C plugin: the Rust host's whole self-check, on one rank and on two.
#[test]
fn rust_host_over_c_plugin() {
    for (variant, ranks, depth) in [("", "1", "64"), ("", "2", "0"), ("FUTURE", "2", "64")] {
        let outcome = run(Command::new(host_stub())
            .args(["check", "--np", ranks, "--plugin"])
            .arg(c_plugin(variant))
            .args(["--mca", "btl_cma_queue_depth", depth]));
        let said = outcome.transcript();
        assert!(outcome.status.success(), "{said}");
        assert!(outcome.stdout.ends_with(" passed, 0 failed\n"), "{said}");
        assert!(outcome.stdout.contains("provider cma"), "{said}");
    }
}

/// The example of device memory, which only copies may access.
#[test]
fn c_program_with_a_device() {
    for provider in PROVIDERS {
        let setting = format!("btl_ofi_provider_include={provider}");
        let outcome = host("device", &[], ofi_plugin(), &[&setting]);
        let said = outcome.transcript();
        assert!(outcome.status.success(), "{provider}: {said}");
        assert!(outcome.stdout.contains("all as it should be"), "{said}");
    }
}

#[test]
fn newer_and_older_sides_work_together() {
    for (program, minor) in [("host", ABI_MINOR), ("host-future", ABI_MINOR + 1)] {
        for (variant, plugin_minor) in [("", ABI_MINOR), ("FUTURE", ABI_MINOR + 1)] {
            let said = passes(program, &c_plugin(variant), &[]);
            let line = format!("rank 0: host ABI 1.{minor}, plugin ABI 1.{plugin_minor}");
            assert!(said.contains(&line), "{said}");
        }
    }
    // The released plugin, under a newer host.
    passes(
        "host-future",
        ofi_plugin(),
        &["btl_ofi_provider_include=shm"],
    );
}

/// The C host runs under valgrind: no invalid access, no leak. (The C plugin needs pidfd_open,
/// which valgrind 3.19 does not support.)
#[test]
fn c_host_under_valgrind() {
    let Some(valgrind) = valgrind() else { return };
    let outcome = run(Command::new(&valgrind[0])
        .args(&valgrind[1..])
        .arg(c_program("host"))
        .arg(ofi_plugin())
        .arg("btl_ofi_provider_include=shm"));
    let said = outcome.transcript();
    assert!(outcome.status.success(), "{said}");
    assert!(!said.contains("definitely lost"), "{said}");
}

/// Runs with messages of the plugin (mode 2), and without.
fn over_provider(provider: &str) {
    let setting = format!("btl_ofi_provider_include={provider}");
    for mode in ["0", "2"] {
        let mode = format!("btl_ofi_mode={mode}");
        let said = passes("host", ofi_plugin(), &[&setting, &mode]);
        assert!(
            said.contains(&format!("), provider {provider}, domain ")),
            "{said}"
        );
    }
}

#[test]
fn c_host_over_shm() {
    over_provider("shm");
}

#[test]
fn c_host_over_tcp() {
    over_provider("tcp;ofi_rxm");
}

#[test]
fn a_parameter_that_does_not_parse_ends_the_run() {
    let outcome = host("host", &[], &c_plugin(""), &["btl_cma_queue_depth=many"]);
    assert_eq!(outcome.status.code(), Some(2));
    assert!(
        outcome
            .stderr
            .contains("btl_cma_queue_depth: \"many\" cannot be used"),
        "{}",
        outcome.transcript()
    );
}
