//! Tests of the paths to device memory that a provider's capabilities and parameters select: direct if the provider
//! accepts registrations, staged if it refuses them; and of the thread that serves peers.

use std::process::Command;

use integration_tests::fixtures::{host_stub, ofi_plugin};
use integration_tests::lab::Lab;
use integration_tests::process::{Outcome, run};

/// Runs the device suite or some of its tests; no test may fail.
fn suite(provider: &str, only: Option<&str>, environment: &[(&str, &str)]) -> Outcome {
    let lab = Lab::default();
    let mut command = Command::new(host_stub());
    command
        .args(["check", "--np", "2", "--suite", "device"])
        .args(only.iter().flat_map(|name| ["--only", name]))
        .args(["--provider", provider, "--plugin"])
        .arg(ofi_plugin())
        .envs(environment.iter().copied());
    lab.serve(&mut command, []);
    let outcome = run(&mut command);
    let said = outcome.transcript();
    assert!(outcome.status.success(), "{said}");
    assert!(outcome.stdout.ends_with(" passed, 0 failed\n"), "{said}");
    outcome
}

const FALLEN_BACK: &str = "copies are used instead";
const ASKED: (&str, &str) = ("OMPI_MCA_btl_ofi_hmem", "on");

/// A provider that claims FI_HMEM and refuses every registration: each rank reports this once and
/// copies instead.
#[test]
fn a_provider_that_refuses_registrations() {
    let outcome = suite("lab", Some("device/"), &[ASKED, ("LAB_HMEM", "1")]);
    let said = outcome.stderr.matches(FALLEN_BACK).count();
    assert_eq!(said, 2, "{}", outcome.transcript());
}

/// A provider that accepts registrations of device memory, with FI_HMEM_DEVICE_ONLY and without it:
/// no registration is refused.
#[test]
fn a_provider_that_takes_registrations() {
    // The device flag of a registration has no effect on the windows.
    for (device_only, tests) in [("1", None), ("0", Some("device/"))] {
        let environment = [
            ASKED,
            ("LAB_HMEM", "1"),
            ("LAB_HMEM_OVERRIDE", "1"),
            ("LAB_HMEM_DEVICE_ONLY", device_only),
        ];
        let outcome = suite("lab", tests, &environment);
        assert!(
            !outcome.stderr.contains(FALLEN_BACK),
            "{}",
            outcome.transcript()
        );
    }
}

/// The provider makes progress by itself and refuses the atomics that it advertises, so lanes are taken by message.
#[test]
fn a_provider_whose_atomics_go_by_message() {
    suite("net", Some("device/"), &[]);
}

/// The progress thread serves rings, without a call of the program.
#[test]
fn the_progress_thread_serves_rings() {
    let keeper = ("OMPI_MCA_host_progress_thread", "1");
    for provider in ["shm", "tcp;ofi_rxm"] {
        for tests in ["device/started", "device/garbage"] {
            suite(provider, Some(tests), &[keeper]);
        }
    }
}

/// A test fails with a reason if the device has no memory for a buffer. With a host buffer instead, the
/// test would pass, and prove nothing about the device.
#[test]
fn buffers_that_the_device_has_no_memory_for() {
    let page = "4096";
    let mut command = Command::new(host_stub());
    command
        .args(["check", "--np", "2", "--suite", "device", "--only"])
        .args(["buffers/requests/wait_all", "--provider", "shm"])
        .args(["--mca", "host_pretended_bytes", page, "--plugin"])
        .arg(ofi_plugin());
    let outcome = run(&mut command);
    let said = outcome.transcript();
    assert!(!outcome.status.success(), "{said}");
    assert!(
        said.contains("device 0 (pretended device): no room for"),
        "{said}"
    );
}

/// Reports of failed copies name the operation, the function and its result.
#[test]
fn failed_copies_are_named() {
    let outcome = suite("shm", Some("device/copies-that-fail"), &[]);
    for (operation, function) in [("put", "copy_from_hmem_iov"), ("get", "copy_to_hmem_iov")] {
        for (answer, status) in [
            ("65 bytes", "ERROR"),
            ("63 bytes", "ERROR"),
            ("-5 ", "ERROR"),
            ("-38 ", "NOT_SUPPORTED"),
        ] {
            let is_said = outcome.stderr.lines().any(|line| {
                let begins = format!("a {operation} on 64 bytes of device memory, process ");
                let copy = format!("{function} of 64 bytes");
                line.contains(&begins)
                    && line.contains(&copy)
                    && line.contains(&format!("returned {answer}"))
                    && line.contains(&format!("[{status} "))
            });
            assert!(is_said, "{operation}, {answer}: {}", outcome.transcript());
        }
    }
}

/// With a thread, an owner serves peers without entering the library, if the provider makes
/// progress by itself. The test of the same name shows the contrary without a thread.
#[test]
fn a_thread_serves_in_its_owners_place() {
    for threaded in ["1", "0"] {
        let environment = [("OMPI_MCA_btl_ofi_hmem_thread", threaded)];
        let outcome = suite("sockets", Some("device/who-serves"), &environment);
        assert!(
            !outcome.stderr.contains("skipped"),
            "{}",
            outcome.transcript()
        );
    }
}
