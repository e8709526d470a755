//! Tasking runtimes that suspend tasks, by the headers that the host has for them, and tasks that their
//! parents include.

use super::*;

/// A runtime with a program of `omp/`.
struct Runtime {
    program: &'static str,
    source: &'static str,
    compiler: &'static str,
    /// What finds the headers and the libraries.
    options: &'static [&'static str],
    /// A program that needs them.
    probe: &'static str,
    package: &'static str,
}

const FIBERS: Runtime = Runtime {
    program: "fibers",
    source: "fibers.cpp",
    compiler: "c++",
    options: &["-std=c++14", "-lboost_fiber", "-lboost_context"],
    probe: "#include <boost/fiber/operations.hpp>\nint main() { boost::this_fiber::yield(); }\n",
    package: "g++ and libboost-fiber-dev",
};

const STARPU: Runtime = Runtime {
    program: "starpu",
    source: "starpu.c",
    compiler: "gcc",
    options: &["-std=gnu11", "-I/usr/include/starpu/1.3", "-lstarpu-1.3"],
    probe: "#include <starpu.h>\n#ifndef STARPU_OPENMP\n#error\n#endif\n\
            int main(void) { return starpu_is_initialized(); }\n",
    package: "libstarpu-dev",
};

const ARGOBOTS: Runtime = Runtime {
    program: "argobots",
    source: "argobots.c",
    compiler: "gcc",
    options: &["-std=gnu11", "-labt"],
    probe: "#include <abt.h>\nint main(int n, char **v) { return ABT_init(n, v); }\n",
    package: "Argobots, which has no package",
};

fn place() -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("runtimes");
    std::fs::create_dir_all(&place).unwrap();
    place
}

/// Whether the runtime is installed here.
fn is_installed(runtime: &Runtime) -> bool {
    let (_, kind) = runtime.source.rsplit_once('.').unwrap();
    let probe = place().join(format!("probe-{}.{kind}", runtime.program));
    std::fs::write(&probe, runtime.probe).unwrap();
    Command::new(runtime.compiler)
        .arg(&probe)
        .args(runtime.options)
        .arg("-o")
        .arg(probe.with_extension("out"))
        .output()
        .is_ok_and(|output| output.status.success())
}

/// The program of a runtime, compiled with every warning an error.
fn compiled(runtime: &Runtime, more: &[&str]) -> PathBuf {
    let (library, out) = (
        host_library().parent().unwrap(),
        place().join(runtime.program),
    );
    let output = Command::new(runtime.compiler)
        .args(["-O1", "-g", "-fopenmp", "-Wall", "-Wextra", "-Werror"])
        // Of a header, not all is used.
        .args(["-Wno-unused-function", "-Wno-unused-variable"])
        .arg("-I")
        .arg(root().join("host-stub/c/include"))
        .arg(root().join("tests/omp").join(runtime.source))
        .arg("-o")
        .arg(&out)
        .arg("-L")
        .arg(library)
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .arg("-lhost_stub")
        .args(more)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", runtime.program);
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
            .env("OMP_EXTERNAL", "task")
            // StarPU: two workers wherever there is room, a queue for both, and its measurements of this machine.
            .env("STARPU_NCPU", "2")
            .env("STARPU_WORKERS_NOBIND", "1")
            .env("STARPU_SCHED", "eager")
            .env("STARPU_NCUDA", "0")
            .env("STARPU_NOPENCL", "0")
            .env("STARPU_SILENT", "1")
            .env("STARPU_HOME", place()),
        LIMIT,
    )
}

/// Over transports that may answer before a task waits, and over one that takes its time.
fn waits_right(runtime: &Runtime, program: &Path) {
    let right = format!("{}: task mode, right", runtime.program);
    let ofi = ofi_plugin();
    for outcome in [
        launched(ofi, program, &["--provider", "shm"], &[]),
        launched(ofi, program, &["--provider", "tcp;ofi_rxm"], &[]),
        launched(&c_plugin(""), program, &[], &["slow"]),
    ] {
        let said = outcome.transcript();
        assert!(outcome.status.success(), "{said}");
        assert!(outcome.stdout.contains(&right), "{said}");
    }
}

/// Fibers that two threads share: most of them wait at once, and some go on on the other thread.
#[test]
fn fibers_of_boost() {
    if !is_installed(&FIBERS) {
        return skipped(&format!("no Boost.Fiber here (Debian: {})", FIBERS.package));
    }
    let program = compiled(&FIBERS, FIBERS.options);
    waits_right(&FIBERS, &program);
    // Without a progress thread they yield.
    let mca = ["--provider", "shm", "--mca", "host_progress_thread", "0"];
    let outcome = launched(ofi_plugin(), &program, &mca, &[]);
    let said = outcome.transcript();
    assert!(outcome.status.success(), "{said}");
}

/// Tasks of StarPU: untied ones go on on another worker, tied ones do not, a parent waits for the task that it
/// includes, and a detached task ends with its request.
#[test]
fn tasks_of_starpu() {
    if !is_installed(&STARPU) {
        return skipped(&format!("no StarPU here (Debian: {})", STARPU.package));
    }
    let program = compiled(&STARPU, STARPU.options);
    waits_right(&STARPU, &program);
}

/// User-level threads of Argobots; without it those of `omp/imitation/abt.h`, which show the header's calls only.
#[test]
fn threads_of_argobots() {
    let imitation = root().join("tests/omp/imitation");
    let imitation = ["-std=gnu11", "-I", imitation.to_str().unwrap()];
    let options = if is_installed(&ARGOBOTS) {
        ARGOBOTS.options
    } else {
        println!("over an imitation: there is no {}", ARGOBOTS.package);
        &imitation
    };
    let program = compiled(&ARGOBOTS, options);
    waits_right(&ARGOBOTS, &program);
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
