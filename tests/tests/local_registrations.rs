//! A transport that puts and gets only from and to registered memory: the host registers what its
//! callers pass, and keeps the registrations.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test reports by panicking, in its helpers too"
)]

use std::process::Command;
use std::time::Duration;

use integration_tests::fixtures::{c_plugin, host_stub};
use integration_tests::process::run;

const LIMIT: Duration = Duration::from_secs(120);

/// Runs the check of windows whose table goes through the transport, with some kept registrations;
/// gives what it said.
fn check(entries: &str) -> String {
    bounded("host_registration_cache_entries", entries)
}

/// The same under a bound of what is kept.
fn bounded(bound: &str, value: &str) -> String {
    let outcome = run(
        Command::new(host_stub())
            .args(["check", "--np", "2", "--plugin"])
            .arg(c_plugin("WANTS_REGISTRATION"))
            .args([
                "--mca",
                "host_win_table",
                "btl",
                "--mca",
                "host_verbose",
                "3",
            ])
            .args(["--mca", bound, value]),
        LIMIT,
    );
    let said = outcome.transcript();
    assert!(outcome.status.success(), "{said}");
    assert!(outcome.stdout.contains(" 0 failed"), "{said}");
    said
}

/// The number before a word in the last line that counts registrations.
fn counted(said: &str, word: &str) -> u64 {
    let line = said.lines().rfind(|line| line.contains("Counts {"));
    let line = line.unwrap_or_else(|| panic!("no counts in: {said}"));
    let after = line.split(&format!("{word}: ")).nth(1).unwrap();
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

#[test]
fn kept_registrations_serve_every_kind_of_operation() {
    let said = check("1024");
    if said.contains("registrations of local buffers are not kept") {
        println!("skipped: this process cannot be told of unmapped memory");
        return;
    }
    assert!(counted(&said, "hits") > 1000, "{said}");
    assert!(counted(&said, "kept") > 0, "{said}");
}

#[test]
fn a_few_kept_registrations_make_room_for_each_other() {
    let said = check("2");
    if !said.contains("registrations of local buffers are not kept") {
        assert!(counted(&said, "evicted") > 0, "{said}");
    }
}

#[test]
fn what_is_larger_than_all_that_may_be_kept_is_registered_for_its_use_alone() {
    let said = bounded("host_registration_cache_bytes", "4096");
    if !said.contains("registrations of local buffers are not kept") {
        assert!(counted(&said, "alone") > 0, "{said}");
    }
}

#[test]
fn without_kept_registrations_each_operation_has_its_own() {
    check("0");
}
