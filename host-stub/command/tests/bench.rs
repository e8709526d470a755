//! The output of `host-stub bench`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use common::host_stub;
use integration_tests::fixtures::c_plugin;
use integration_tests::process::{self, Outcome};
use serde_json::Value;

/// A short run over the C plugin, from 1 to 64 bytes.
fn run(more: &[&str]) -> Outcome {
    let mut command = host_stub(["bench", "put", "--np", "2", "--seconds", "0.2"]);
    command.args(["--max-size", "64", "--plugin"]);
    process::run(command.arg(c_plugin("")).args(more))
}

#[test]
fn figures_have_their_spread() {
    let run = run(&["--json"]);
    assert_eq!(run.status.code(), Some(0), "{}", run.stderr);
    let printed: Value = serde_json::from_str(&run.stdout).unwrap();
    let rows = printed["rows"].as_array().unwrap();
    let sizes: Vec<_> = rows
        .iter()
        .map(|row| row["size"].as_u64().unwrap())
        .collect();
    assert_eq!(sizes, [1, 2, 4, 8, 16, 32, 64]);
    for figure in rows
        .iter()
        .flat_map(|row| [&row["latency_us"], &row["calls_per_s"]])
    {
        let value = |name: &str| figure[name].as_f64().unwrap();
        let ordered = value("least") <= value("median") && value("median") <= value("most");
        assert!(value("least") > 0.0 && ordered, "{figure}");
    }
}

#[test]
fn a_window_gets_the_table_that_is_asked_for() {
    for table in ["shm", "mixed", "btl"] {
        let run = run(&["--json", "--table", table]);
        assert_eq!(run.status.code(), Some(0), "{}", run.stderr);
        let printed: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(printed["table"], table);
    }
}

#[test]
fn a_line_for_each_size_below_the_head() {
    let run = run(&[]);
    assert_eq!(run.status.code(), Some(0), "{}", run.stderr);
    assert_eq!(run.stdout.lines().count(), 2 + 7, "{}", run.stdout);
}

/// Only sizes of two and more runs are measured.
#[test]
fn runs_of_puts_and_gets() {
    let puts = run(&["--run", "16"]);
    assert_eq!(puts.status.code(), Some(0), "{}", puts.stderr);
    assert_eq!(puts.stdout.lines().count(), 2 + 2, "{}", puts.stdout);
    let mut command = host_stub(["bench", "acc", "--np", "2", "--run", "8", "--plugin"]);
    let refused = process::run(command.arg(c_plugin("")));
    assert_eq!(refused.status.code(), Some(2), "{}", refused.stderr);
}

/// A rank's copies to itself say nothing about a transport.
#[test]
fn one_rank_is_refused() {
    for ranks in [&["--np", "1"][..], &[]] {
        let mut command = host_stub(["bench", "put", "--plugin"]);
        let run = process::run(command.arg(c_plugin("")).args(ranks));
        assert_eq!(run.status.code(), Some(2), "{}", run.stderr);
        let said = run.stderr;
        assert!(said.contains("bench put: wanted two ranks"), "{said}");
        assert!(said.contains("--np 2"), "{said}");
    }
}
