//! Tests whose ranks are functions of the same executable, started by the launcher.

use std::path::Path;

use integration_tests::fixtures::c_plugin;
use integration_tests::process::{self, Outcome};

use super::host_stub;

/// Runs a `rank_` function as a job over the C plugin, with more in its environment.
pub(crate) fn run(ranks: u32, body: &str, environment: &[(&str, &str)]) -> Outcome {
    run_over(&c_plugin(""), ranks, body, environment)
}

/// As [`run`], over any plugin.
pub(crate) fn run_over(
    plugin: &Path,
    ranks: u32,
    body: &str,
    environment: &[(&str, &str)],
) -> Outcome {
    run_with(plugin, ranks, body, environment, &[])
}

/// As [`run_over`], with more arguments of the launcher.
pub(crate) fn run_with(
    plugin: &Path,
    ranks: u32,
    body: &str,
    environment: &[(&str, &str)],
    arguments: &[&str],
) -> Outcome {
    let mut command = host_stub(["launch", "-n", &ranks.to_string(), "--plugin"]);
    command
        .arg(plugin)
        .args(arguments)
        .arg("--")
        .arg(std::env::current_exe().expect("this executable"))
        .args([
            "--exact",
            body,
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .envs(environment.iter().copied());
    process::run(&mut command)
}

/// As [`run`], and checks that each rank succeeds and prints the line "passed".
pub(crate) fn passes(ranks: u32, body: &str) {
    passes_with(ranks, body, &[]);
}

/// As [`passes`], with more in the environment.
pub(crate) fn passes_with(ranks: u32, body: &str, environment: &[(&str, &str)]) {
    let run = run(ranks, body, environment);
    assert_eq!(run.status.code(), Some(0), "{}{}", run.stdout, run.stderr);
    let passed = run.stdout.matches("passed\n").count();
    assert!(passed >= ranks as usize, "{}", run.stdout);
}
