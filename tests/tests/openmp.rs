//! OpenMP programs over the host, compiled by GCC and by Clang, in the three modes.

#[path = "openmp/level.rs"]
mod level;
#[path = "openmp/runtimes.rs"]
mod runtimes;
#[path = "openmp/target.rs"]
mod target;
#[path = "openmp/waits.rs"]
mod waits;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use integration_tests::fixtures::{c_plugin, host_library, host_stub, ofi_plugin};
use integration_tests::process::{Outcome, run};
use test_skips::{Lacking, skipped};

const MODES: [&str; 3] = ["master", "thread", "task"];
/// The warning for a program that requested the task level and does not get it.
const REFUSED: &str = "thread level TaskMultiple was asked for, and Multiple is provided";

#[derive(Clone, Copy)]
struct Compiler {
    name: &'static str,
    /// Whether the compiler's OpenMP runs another task at a taskyield.
    yields: bool,
}

const COMPILERS: [Compiler; 2] = [
    Compiler {
        name: "gcc",
        yields: false,
    },
    Compiler {
        name: "clang",
        yields: true,
    },
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Whether the compiler is installed, with its own OpenMP.
fn is_there(compiler: Compiler) -> bool {
    static FOUND: Mutex<BTreeMap<&str, bool>> = Mutex::new(BTreeMap::new());
    // Tests run at the same time, and must not overwrite each other's output.
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let there = *found
        .entry(compiler.name)
        .or_insert_with(|| compiles_openmp(compiler));
    if !there {
        drop(found);
        skipped(
            Lacking::Package,
            format!(
                "no {} with -fopenmp here (Debian: gcc, clang and libomp-dev)",
                compiler.name
            ),
        );
    }
    there
}

fn compiles_openmp(compiler: Compiler) -> bool {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = place.join(format!("omp-{}.c", compiler.name));
    std::fs::write(
        &source,
        "#include <omp.h>\nint main(void) { return omp_get_num_threads() - 1; }\n",
    )
    .unwrap();
    let output = Command::new(compiler.name)
        .args(["-fopenmp", "-o"])
        .arg(place.join(format!("omp-{}", compiler.name)))
        .arg(&source)
        .output();
    output.is_ok_and(|output| output.status.success())
}

/// A program of `omp/`, which the first test that needs it compiles; later tests must not compile
/// it again, because others may be running it.
fn program(compiler: Compiler, name: &str) -> PathBuf {
    static MADE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", compiler.name));
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if !made.contains(&out) {
        compile(compiler, name, &out);
        made.insert(out.clone());
    }
    out
}

/// Compiles a program of `omp/`; every warning is an error.
fn compile(compiler: Compiler, name: &str, out: &Path) {
    let mut command = Command::new(compiler.name);
    // A program may define functions of the runtime, which the host looks up by name. GCC does not count uses in depend
    // clauses.
    command.args(["-std=gnu11", "-rdynamic", "-Wno-unused-but-set-variable"]);
    link_with_host(&mut command, &format!("{name}.c"), out);
    assert_eq!(built(&mut command), Ok(()), "{} {name}", compiler.name);
}

/// Adds the options that compile a program of `omp/`, with every warning an error, and link it with the host.
fn link_with_host(command: &mut Command, source: &str, out: &Path) {
    let library = host_library().parent().unwrap();
    command
        .args(WARNINGS)
        // A program does not use all functions of a header.
        .args(["-Wno-unused-function", "-Wno-unused-variable", "-I"])
        .arg(root().join("host-stub/c/include"))
        .arg(root().join("tests/omp").join(source))
        .arg("-o")
        .arg(out)
        .arg("-L")
        .arg(library)
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .arg("-lhost_stub");
}

const WARNINGS: [&str; 6] = ["-O1", "-g", "-fopenmp", "-Wall", "-Wextra", "-Werror"];

/// Runs a compiler; returns its output if the build fails.
fn built(command: &mut Command) -> Result<(), String> {
    let output = command.output().unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// A program under the launcher, with ranks of two threads each. Idle threads do not spin, because there are more
/// threads than processors.
fn launch(
    count: u32,
    plugin: &Path,
    options: &[&str],
    (program, arguments): (&Path, &[&str]),
    environment: &[(&str, &str)],
) -> Outcome {
    run(Command::new(host_stub())
        .args(["launch", "-n", &count.to_string(), "--plugin"])
        .arg(plugin)
        .args(options)
        .arg("--")
        .arg(program)
        .args(arguments)
        .env_remove("OMP_EXTERNAL")
        .env("OMP_NUM_THREADS", "2")
        .env("OMP_WAIT_POLICY", "passive")
        .envs(environment.iter().copied()))
}

/// Asserts that the program succeeded and printed the words.
fn is_right(outcome: &Outcome, words: &str) {
    let said = outcome.transcript();
    assert!(outcome.status.success(), "{said}");
    assert!(outcome.stdout.contains(words), "{words}: {said}");
}

/// Runs a program in a mode, over the transport only.
fn ranks(count: u32, mode: &str, provider: &str, program: &Path, arguments: &[&str]) -> Outcome {
    let options = ["--provider", provider, "--mca", "host_win_table", "btl"];
    let environment = [("OMP_EXTERNAL", mode)];
    launch(
        count,
        ofi_plugin(),
        &options,
        (program, arguments),
        &environment,
    )
}

/// The forms of a program, each with its own mode and the later modes. A form that is right if one
/// thread communicates is also right if all threads or tasks communicate.
const FORMS: [(&str, &[&str]); 3] = [
    ("as-master", &MODES),
    ("as-thread", &["thread", "task"]),
    ("as-task", &["task"]),
];

fn in_every_mode(compiler: Compiler, count: u32, name: &str, arguments: &[&str]) {
    if !is_there(compiler) {
        return;
    }
    let program = program(compiler, name);
    let runs = FORMS
        .iter()
        .flat_map(|(form, modes)| modes.iter().map(move |mode| (*form, *mode)));
    for (number, (form, mode)) in runs.enumerate() {
        // The mode decides how a call waits, independently of the provider; the compilers alternate between the providers,
        // so that each mode runs over both.
        let provider = ["shm", "tcp;ofi_rxm"][(number + usize::from(compiler.yields)) % 2];
        let arguments = [arguments, &[form]].concat();
        let outcome = ranks(count, mode, provider, &program, &arguments);
        // A program without hooks keeps its tasks on their threads.
        let refused = mode == "task" && !(arguments.contains(&"yield") && compiler.yields);
        let used = if refused { "thread" } else { mode };
        is_right(&outcome, &format!("{name}: {used} mode, right"));
        let said = format!(
            "{form} in {mode} mode over {provider}: {}",
            outcome.transcript()
        );
        assert_eq!(outcome.stderr.contains(REFUSED), refused, "{said}");
        if arguments.contains(&"yield") {
            let yes = outcome.stdout.contains("taskyield in waits: yes");
            assert_eq!(yes, compiler.yields, "{said}");
        }
    }
}

#[test]
fn a_stencil_compiled_by_gcc() {
    in_every_mode(COMPILERS[0], 4, "stencil", &[]);
}

#[test]
fn a_stencil_compiled_by_clang() {
    in_every_mode(COMPILERS[1], 4, "stencil", &[]);
}

#[test]
fn tasks_compiled_by_gcc() {
    in_every_mode(COMPILERS[0], 2, "tasks", &["yield"]);
}

#[test]
fn tasks_compiled_by_clang() {
    in_every_mode(COMPILERS[1], 2, "tasks", &["yield"]);
}

/// Tasks of the program's own runtime, which suspends and resumes: many tasks on one thread.
#[test]
fn tasks_that_are_suspended() {
    if !is_there(COMPILERS[0]) {
        return;
    }
    let program = program(COMPILERS[0], "suspend");
    for provider in ["shm", "tcp;ofi_rxm"] {
        let outcome = ranks(2, "task", provider, &program, &[]);
        is_right(&outcome, "suspend: task mode, right");
    }
    // If each operation takes a millisecond, all tasks must be suspended at the same time.
    is_right(&slowly(2, &program, &[]), "");
}

/// Suspended tasks of one thread make windows and barriers under another launcher: the exchange of one
/// task is outstanding while the next begins.
#[test]
fn tasks_that_are_suspended_under_mpirun() {
    if !is_there(COMPILERS[0]) {
        return;
    }
    if Command::new("mpirun").arg("--version").output().is_err() {
        skipped(Lacking::Package, "there is no mpirun (Debian: openmpi-bin)");
        return;
    }
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mpirun");
    std::fs::create_dir_all(&place).unwrap();
    let outcome = run(Command::new("timeout")
        .args(["--kill-after=5", "90"])
        .args(["mpirun", "--oversubscribe", "-n", "2"])
        .arg(program(COMPILERS[0], "suspend"))
        .env("HOST_STUB_PLUGIN", ofi_plugin())
        .env("TMPDIR", &place)
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("OMPI_MCA_mca_base_param_files", "none")
        .env("OMPI_MCA_btl_ofi_provider_include", "tcp;ofi_rxm")
        .env("FI_TCP_IFACE", "lo")
        .env("OMP_EXTERNAL", "task"));
    is_right(&outcome, "suspend: task mode, right");
}

/// Runs a program with the argument `slow` and others, in task mode, over a transport whose operations take a
/// millisecond each.
fn slowly(count: u32, program: &Path, arguments: &[&str]) -> Outcome {
    let options = ["--mca", "host_win_table", "btl"];
    let arguments = [&["slow"], arguments].concat();
    let environment = [("CMA_DELAY_US", "1000"), ("OMP_EXTERNAL", "task")];
    launch(
        count,
        &c_plugin(""),
        &options,
        (program, &arguments),
        &environment,
    )
}

/// Two waiting tasks occupy no thread, so the third task can signal them. Otherwise the task level
/// is not provided, and the program gets a message with the requested level, the provided level and
/// the reason.
#[test]
fn two_tasks_wait_and_a_third_signals() {
    for compiler in COMPILERS {
        if !is_there(compiler) {
            continue;
        }
        let program = program(compiler, "waiters");
        for threads in ["1", "2"] {
            let options = ["--provider", "shm"];
            let environment = [("OMP_EXTERNAL", "task"), ("OMP_NUM_THREADS", threads)];
            let outcome = launch(1, ofi_plugin(), &options, (&program, &[]), &environment);
            // In a team of one thread, no task can wait while another runs.
            let kept = compiler.yields && threads != "1";
            let mode = if kept { "task" } else { "thread" };
            is_right(&outcome, &format!("waiters: {mode} mode, right"));
            let said = format!(
                "{} with {threads} threads: {}",
                compiler.name,
                outcome.transcript()
            );
            assert_eq!(outcome.stderr.contains(REFUSED), !kept, "{said}");
        }
    }
}

/// A waiting task leaves its thread to another task, if the runtime yields.
#[test]
fn tasks_that_yield() {
    for compiler in COMPILERS {
        if !is_there(compiler) {
            continue;
        }
        let outcome = slowly(2, &program(compiler, "tasks"), &[]);
        let said = outcome.transcript();
        assert!(outcome.status.success(), "{said}");
        let ran = outcome
            .stdout
            .contains("tasks ran while another of their thread waited");
        assert_eq!(ran, compiler.yields, "{said}");
    }
}

/// The progress thread runs on the requested processor, sleeps, and wakes.
#[test]
fn the_progress_thread_sleeps_and_wakes() {
    if !is_there(COMPILERS[0]) {
        return;
    }
    let program = program(COMPILERS[0], "progress");
    let allowed = std::fs::read_to_string("/proc/self/status").unwrap();
    let allowed = allowed
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap();
    // The last processor of a list such as 0-3,8.
    let core = allowed.trim().rsplit([',', '-']).next().unwrap();
    let options = [
        "--mca",
        "host_win_table",
        "btl",
        "--mca",
        "host_progress_thread_core",
        core,
    ];
    let environment = [("CMA_DELAY_US", "20000"), ("OMP_EXTERNAL", "task")];
    let program = (&*program, &[core][..]);
    is_right(
        &launch(1, &c_plugin(""), &options, program, &environment),
        "",
    );
}
