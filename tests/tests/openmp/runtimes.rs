//! A runtime that suspends tasks, by the header that the host has for it, and tasks that their parents include.

use super::*;

/// What finds the headers and the libraries of Boost.Fiber.
const OPTIONS: [&str; 3] = ["-std=c++14", "-lboost_fiber", "-lboost_context"];
/// A program that needs them.
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
    let (library, out) = (host_library().parent().unwrap(), place().join("fibers"));
    let output = Command::new("c++")
        .args(["-O1", "-g", "-fopenmp", "-Wall", "-Wextra", "-Werror"])
        // Of a header, not all is used.
        .args(["-Wno-unused-function", "-Wno-unused-variable"])
        .arg("-I")
        .arg(root().join("host-stub/c/include"))
        .arg(root().join("tests/omp/fibers.cpp"))
        .arg("-o")
        .arg(&out)
        .arg("-L")
        .arg(library)
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .arg("-lhost_stub")
        .args(OPTIONS)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "fibers: {said}");
    out
}

/// Two ranks that run a program in task mode.
fn launched(plugin: &Path, program: &Path, mca: &[&str], arguments: &[&str]) -> Outcome {
    run(
        Command::new(host_stub())
            .args(["launch", "-n", "2", "--mca", "host_win_table", "btl"])
            .args(mca)
            .arg("--plugin")
            .arg(plugin)
            .arg("--")
            .arg(program)
            .args(arguments)
            .env("CMA_DELAY_US", "1000")
            .env("OMP_EXTERNAL", "task"),
        LIMIT,
    )
}

/// Fibers that two threads share: most of them wait at once, and some go on on the other thread.
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
    // Over transports that may answer before a fiber waits, and over one that takes its time.
    for outcome in [
        launched(ofi, &program, &["--provider", "shm"], &[]),
        launched(ofi, &program, &["--provider", "tcp;ofi_rxm"], &[]),
        launched(&c_plugin(""), &program, &[], &["slow"]),
    ] {
        let said = outcome.transcript();
        assert!(outcome.status.success(), "{said}");
        assert!(
            outcome.stdout.contains("fibers: task mode, right"),
            "{said}"
        );
    }
    // Without a progress thread they yield.
    let mca = ["--provider", "shm", "--mca", "host_progress_thread", "0"];
    let outcome = launched(ofi, &program, &mca, &[]);
    let said = outcome.transcript();
    assert!(outcome.status.success(), "{said}");
}

/// A parent goes on after the task that it includes, which blocks.
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
            let said = outcome.transcript();
            assert!(outcome.status.success(), "{said}");
            let used = if compiler.yields { mode } else { "thread" };
            let right = format!("included: {used} mode, right");
            assert!(outcome.stdout.contains(&right), "{said}");
        }
    }
}
