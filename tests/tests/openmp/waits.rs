//! Waits without progress of their own, and with a progress that fails.

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
        run(command, LIMIT)
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

/// Without a progress thread tasks that yield, or wait as threads, make their own progress; those of a
/// runtime that only suspends could not, and it is refused.
#[test]
fn tasks_without_a_progress_thread() {
    let run = |program: &Path, arguments: &[&str]| {
        run(
            Command::new(host_stub())
                .args(["launch", "-n", "2", "--provider", "tcp;ofi_rxm", "--plugin"])
                .arg(ofi_plugin())
                .args(["--mca", "host_win_table", "btl"])
                .args(["--mca", "host_progress_thread", "0", "--"])
                .arg(program)
                .args(arguments)
                .env("OMP_EXTERNAL", "task")
                .env("OMP_NUM_THREADS", "2")
                .env("OMP_WAIT_POLICY", "passive"),
            LIMIT,
        )
    };
    for compiler in COMPILERS {
        if !is_there(compiler) {
            continue;
        }
        let tasks = program(compiler, "tasks");
        let outcome = run(&tasks, &["yield", "as-thread"]);
        let said = outcome.transcript();
        assert!(outcome.status.success(), "{said}");
        let suspend = program(compiler, "suspend");
        let outcome = run(&suspend, &["refused"]);
        let said = outcome.transcript();
        assert!(outcome.status.success(), "{said}");
        assert!(
            outcome.stderr.contains(REFUSED) && outcome.stderr.contains("host_progress_thread"),
            "{said}"
        );
        let outcome = run(&suspend, &["swapped"]);
        let said = outcome.transcript();
        assert!(outcome.status.success(), "{said}");
    }
}
