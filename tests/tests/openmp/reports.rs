//! Long waits are reported on request, with what OpenMP tells of those that wait.

use super::*;

const WAITED: &str = "crt_wait has waited for ";
const OWN_TOOL: &str = "the program's tool has started";

/// Runs a program with `host_wait_report`, 0 for none.
fn reported(program: &Path, after: &str, environment: &[(&str, &Path)]) -> Outcome {
    let outcome = run(
        Command::new(host_stub())
            .args(["launch", "-n", "1", "--provider", "shm", "--plugin"])
            .arg(ofi_plugin())
            .args(["--mca", "host_wait_report", after, "--"])
            .arg(program)
            .env("OMP_EXTERNAL", "thread")
            .env("OMP_NUM_THREADS", "2")
            .env("OMP_WAIT_POLICY", "passive")
            .envs(environment.iter().copied()),
        LIMIT,
    );
    let said = outcome.transcript();
    assert!(outcome.status.success(), "{said}");
    assert!(
        outcome.stdout.contains("reported: thread mode, right"),
        "{said}"
    );
    outcome
}

/// The lines that report waits.
fn lines(outcome: &Outcome) -> Vec<&str> {
    let all = outcome.stderr.lines();
    all.filter(|line| line.contains(WAITED)).collect()
}

/// Under Clang the lines name the task and the thread of OpenMP, under GCC the thread of the system alone.
#[test]
fn long_waits_are_reported_with_the_task_that_waits() {
    for compiler in COMPILERS {
        if !is_there(compiler) {
            continue;
        }
        let outcome = reported(&program(compiler, "reported"), "50", &[]);
        let said = outcome.transcript();
        let lines = lines(&outcome);
        // One of the task, and one of the thread.
        assert_eq!(lines.len(), 2, "{said}");
        assert!(
            lines.iter().all(|line| line.contains(" of the system")),
            "{said}"
        );
        if compiler.name == "gcc" {
            let none = "(no OpenMP runtime has told its task)";
            assert!(lines.iter().all(|line| line.contains(none)), "{said}");
            continue;
        }
        let waits = outcome.stdout.lines();
        let mut waits = waits.filter_map(|line| line.strip_prefix("the task waits on "));
        let on = waits.next().unwrap();
        let task = lines[0];
        assert!(
            task.contains(&format!("(explicit, untied), {on} in parallel region 1")),
            "{said}"
        );
        let thread = lines[1];
        assert!(
            thread.contains("(implicit), thread 1 of 2 in parallel region 2"),
            "{said}"
        );
    }
}

/// Without a request nothing is reported, and no tool is in the way of another one.
#[test]
fn tools_of_others_go_first() {
    let clang = COMPILERS[1];
    if !is_there(clang) {
        return;
    }
    let plain = program(clang, "reported");
    assert_eq!(lines(&reported(&plain, "0", &[])), [""; 0]);
    // A tool in the program itself, and one in a library that is named.
    let own = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reported-own-tool");
    compile_with(clang, "reported", &own, &["-DOWN_TOOL"]);
    let tool = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reported-tool.so");
    compile_with(
        clang,
        "reported",
        &tool,
        &["-DOWN_TOOL", "-shared", "-fPIC"],
    );
    for (program, environment) in [
        (&own, &[][..]),
        (&plain, &[("OMP_TOOL_LIBRARIES", &*tool)][..]),
    ] {
        for after in ["0", "50"] {
            let outcome = reported(program, after, environment);
            let said = outcome.transcript();
            assert!(outcome.stdout.contains(OWN_TOOL), "{said}");
            let lines = lines(&outcome);
            assert_eq!(lines.len(), if after == "0" { 0 } else { 2 }, "{said}");
            assert!(
                lines.iter().all(|line| !line.contains("OpenMP task")),
                "{said}"
            );
        }
    }
}

/// Tasks that leave their thread while they wait: to other tasks of OpenMP, and by the hooks of another runtime.
#[test]
fn tasks_that_left_their_thread_are_reported() {
    let reported = |program: &Path| {
        let outcome = run(
            Command::new(host_stub())
                .args(["launch", "-n", "2", "--mca", "host_win_table", "btl"])
                .args(["--mca", "host_wait_report", "5", "--plugin"])
                .arg(c_plugin(""))
                .arg("--")
                .arg(program)
                .arg("slow")
                .env("CMA_DELAY_US", "20000")
                .env("OMP_EXTERNAL", "task")
                .env("OMP_NUM_THREADS", "2")
                .env("OMP_WAIT_POLICY", "passive"),
            LIMIT,
        );
        assert!(outcome.status.success(), "{}", outcome.transcript());
        outcome.stderr
    };
    let (gcc, clang) = (COMPILERS[0], COMPILERS[1]);
    if is_there(clang) {
        let said = reported(&program(clang, "tasks"));
        let mut tasks = said
            .lines()
            .filter(|line| line.contains("(explicit, untied)"));
        let left = tasks.any(|line| line.contains("its thread went to another task"));
        assert!(left, "{said}");
    }
    if is_there(gcc) {
        let said = reported(&program(gcc, "suspend"));
        assert!(said.contains(" s: task 0x"), "{said}");
    }
}
