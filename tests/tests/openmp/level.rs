//! Modes and thread levels that a program asks for.

use super::*;

/// A value that names no mode has no effect, and is warned of.
#[test]
fn nonsense_is_no_mode() {
    if !is_there(COMPILERS[0]) {
        return;
    }
    let program = program(COMPILERS[0], "tasks");
    let outcome = ranks(1, "nonsense", "shm", &program, &[]);
    let said = outcome.transcript();
    assert!(outcome.status.success(), "{said}");
    assert!(
        outcome.stdout.contains("tasks: thread mode, right"),
        "{said}"
    );
    assert!(
        outcome
            .stderr
            .contains("OMP_EXTERNAL=nonsense: wanted master, thread or task; it has no effect"),
        "{said}"
    );
}

/// The level asked for, or the mode, decides the level provided, and the checking mode holds callers to
/// it, in every kind of call.
#[test]
fn calls_that_break_the_level_are_refused() {
    if !is_there(COMPILERS[0]) {
        return;
    }
    let program = program(COMPILERS[0], "levels");
    let funneled = "1";
    for (level, external, refused, mode) in [
        ("0", None, true, "master"),
        (funneled, None, true, "master"),
        ("2", None, false, "master"),
        ("3", None, false, "thread"),
        // It lends no hooks.
        ("4", None, false, "thread"),
        (funneled, Some("Master"), true, "master"),
        (funneled, Some("THREAD"), false, "thread"),
        (funneled, Some("Task"), false, "thread"),
    ] {
        let mut command = Command::new(host_stub());
        command
            .args(["launch", "-n", "1", "--provider", "shm"])
            .args(["--mca", "host_check", "1", "--plugin"])
            .arg(ofi_plugin())
            .arg("--")
            .arg(&program)
            .arg(level)
            .env_remove("OMP_EXTERNAL");
        if let Some(external) = external {
            command.env("OMP_EXTERNAL", external);
        }
        let outcome = run(&mut command, LIMIT);
        let said = outcome.transcript();
        assert!(outcome.status.success(), "{said}");
        let right = format!("levels: {mode} mode, right");
        assert!(outcome.stdout.contains(&right), "{said}");
        assert_eq!(!outcome.stdout.contains(" 0 refused"), refused, "{said}");
    }
}

/// What was set before init is above the environment.
#[test]
fn the_mode_that_was_set_counts() {
    if !is_there(COMPILERS[0]) {
        return;
    }
    let program = program(COMPILERS[0], "external");
    let plain: &[&str] = &[];
    for (environment, arguments, hooks) in [
        ("task", ["0", "0", "0"], plain),
        ("Master", ["1", "3", "1"], plain),
        ("THREAD", ["2", "3", "1"], plain),
        ("THREAD", ["2", "4", "2"], &["hooks"]),
    ] {
        let arguments = [&arguments[..], hooks].concat();
        let outcome = ranks(1, environment, "shm", &program, &arguments);
        let said = outcome.transcript();
        assert!(
            outcome.status.success(),
            "{environment}, {arguments:?}: {said}"
        );
    }
}
