//! A runtime that suspends tasks, with the host's header for it, and tasks that their parents include.

use super::*;

/// The options that find the headers and the libraries of Boost.Fiber.
const OPTIONS: [&str; 3] = ["-std=c++14", "-lboost_fiber", "-lboost_context"];
/// A program that needs Boost.Fiber.
const PROBE: &str =
    "#include <boost/fiber/operations.hpp>\nint main() { boost::this_fiber::yield(); }\n";

fn place() -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("runtimes");
    std::fs::create_dir_all(&place).unwrap();
    place
}

/// Whether Boost.Fiber is installed here.
fn is_installed() -> bool {
    let probe = place().join("probe-fibers.cpp");
    std::fs::write(&probe, PROBE).unwrap();
    Command::new("c++")
        .arg(&probe)
        .args(OPTIONS)
        .arg("-o")
        .arg(probe.with_extension("out"))
        .output()
        .is_ok_and(|output| output.status.success())
}

/// The program `fibers`, compiled with every warning an error.
fn compiled() -> PathBuf {
    let out = place().join("fibers");
    let mut command = Command::new("c++");
    link_with_host(&mut command, "fibers.cpp", &out);
    assert_eq!(built(command.args(OPTIONS)), Ok(()), "fibers");
    out
}

/// Two ranks that run a program in task mode.
fn launched(plugin: &Path, program: &Path, mca: &[&str], arguments: &[&str]) -> Outcome {
    let options = [&["--mca", "host_win_table", "btl"], mca].concat();
    let environment = [("CMA_DELAY_US", "1000"), ("OMP_EXTERNAL", "task")];
    launch(2, plugin, &options, (program, arguments), &environment)
}

/// Fibers that two threads share: most fibers wait at the same time, and some continue on the other
/// thread.
#[test]
fn fibers_of_boost() {
    if !is_installed() {
        return skipped(
            Lacking::Package,
            "no Boost.Fiber here (Debian: g++ and libboost-fiber-dev)",
        );
    }
    let program = compiled();
    let ofi = ofi_plugin();
    // The test uses transports that may answer before a fiber waits, and a slow transport.
    for outcome in [
        launched(ofi, &program, &["--provider", "shm"], &[]),
        launched(ofi, &program, &["--provider", "tcp;ofi_rxm"], &[]),
        launched(&c_plugin(""), &program, &[], &["slow"]),
    ] {
        is_right(&outcome, "fibers: task mode, right");
    }
    // Without a progress thread, the fibers yield.
    let mca = ["--provider", "shm", "--mca", "host_progress_thread", "0"];
    is_right(&launched(ofi, &program, &mca, &[]), "");
}

/// A parent continues after its included task, which blocks.
#[test]
fn included_tasks() {
    for compiler in COMPILERS {
        if !is_there(compiler) {
            continue;
        }
        let included = program(compiler, "included");
        let outcomes = [
            ranks(2, "thread", "tcp;ofi_rxm", &included, &[]),
            ranks(2, "task", "tcp;ofi_rxm", &included, &["yield"]),
            slowly(2, &included, &["yield"]),
        ];
        for (outcome, mode) in outcomes.iter().zip(["thread", "task", "task"]) {
            let used = if compiler.yields { mode } else { "thread" };
            is_right(outcome, &format!("included: {used} mode, right"));
        }
    }
}
