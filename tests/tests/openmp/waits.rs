//! Waits without their own progress, and with failing progress.

use super::*;

/// If a transport fails to make progress, sleeping waits end with an error.
#[test]
fn failing_progress_ends_waits() {
    if !is_there(COMPILERS[0]) {
        return;
    }
    let broken = |command: &mut Command, size: &str| {
        command
            .env("CMA_DELAY_US", "1000000")
            .env("CMA_BREAKING_BYTES", size)
            .env("OMP_EXTERNAL", "thread");
        run(command)
    };
    let outcome = broken(
        Command::new(host_stub())
            .args(["launch", "-n", "1", "--plugin"])
            .arg(c_plugin(""))
            .args(["--mca", "host_progress_thread", "1"])
            .args(["--mca", "host_win_table", "btl", "--"])
            .arg(program(COMPILERS[0], "trouble")),
        "13",
    );
    let said = outcome.transcript();
    assert!(outcome.stdout.contains("trouble: told"), "{said}");
    // The puts of this test have 16 bytes.
    let outcome = broken(
        Command::new(host_stub())
            .args(["check", "--np", "2", "--suite", "crt", "--timeout", "40"])
            .args(["--only", "crt/wait_all"])
            .args(["--mca", "host_progress_thread", "1", "--plugin"])
            .arg(c_plugin("")),
        "16",
    );
    let said = outcome.transcript();
    assert!(!outcome.status.success(), "{said}");
    assert!(said.contains("the transport answered"), "{said}");
    assert!(!said.contains("did not end within"), "{said}");
}

/// Without a progress thread, tasks that yield, or wait as threads, make their own progress. Tasks of
/// a runtime that only suspends could not, so the host refuses such a runtime.
#[test]
fn tasks_without_a_progress_thread() {
    let options = [
        "--provider",
        "tcp;ofi_rxm",
        "--mca",
        "host_win_table",
        "btl",
    ];
    let options = [&options[..], &["--mca", "host_progress_thread", "0"]].concat();
    let run = |program: &Path, arguments: &[&str]| {
        let environment = [("OMP_EXTERNAL", "task")];
        launch(
            2,
            ofi_plugin(),
            &options,
            (program, arguments),
            &environment,
        )
    };
    for compiler in COMPILERS {
        if !is_there(compiler) {
            continue;
        }
        let tasks = program(compiler, "tasks");
        is_right(&run(&tasks, &["yield", "as-thread"]), "");
        let suspend = program(compiler, "suspend");
        let outcome = run(&suspend, &["refused"]);
        is_right(&outcome, "");
        let said = outcome.transcript();
        assert!(
            outcome.stderr.contains(REFUSED) && outcome.stderr.contains("host_progress_thread"),
            "{said}"
        );
        is_right(&run(&suspend, &["swapped"]), "");
    }
}
