//! Modes and thread levels that a program requests.

use super::*;

/// An invalid mode has no effect, and causes a warning.
#[test]
fn nonsense_is_no_mode() {
    if !is_there(COMPILERS[0]) {
        return;
    }
    let program = program(COMPILERS[0], "tasks");
    let outcome = ranks(1, "nonsense", "shm", &program, &[]);
    is_right(&outcome, "tasks: thread mode, right");
    let said = outcome.transcript();
    assert!(
        outcome
            .stderr
            .contains("OMP_EXTERNAL=nonsense: wanted master, thread or task; it has no effect"),
        "{said}"
    );
}

/// The requested level, or the mode, decides the provided level. The checking mode enforces the level
/// in every kind of call.
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
        // The program has no hooks.
        ("4", None, false, "thread"),
        (funneled, Some("Master"), true, "master"),
        (funneled, Some("THREAD"), false, "thread"),
        (funneled, Some("Task"), false, "thread"),
    ] {
        let options = ["--provider", "shm", "--mca", "host_check", "1"];
        let environment: Vec<_> = external
            .map(|mode| ("OMP_EXTERNAL", mode))
            .into_iter()
            .collect();
        let program = (&*program, &[level][..]);
        let outcome = launch(1, ofi_plugin(), &options, program, &environment);
        is_right(&outcome, &format!("levels: {mode} mode, right"));
        let said = outcome.transcript();
        assert_eq!(!outcome.stdout.contains(" 0 refused"), refused, "{said}");
    }
}

/// A mode that was set before init overrides the environment.
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
