//! The files that tests need.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use test_skips::{Lacking, skipped};

/// The providers of every suite.
pub const PROVIDERS: [&str; 3] = ["shm", "tcp;ofi_rxm", "sockets"];

/// `libbtl_ofi.so`: from the folder `INTEGRATION_FILES` if it is set, else built by cargo on the first call with the profile of
/// the tests.
pub fn ofi_plugin() -> &'static Path {
    built("libbtl_ofi.so")
}

/// The `host-stub` program, built like [`ofi_plugin`].
pub fn host_stub() -> &'static Path {
    built("host-stub")
}

/// The libfabric provider for tests; the crate `lab-provider` documents it.
pub fn lab_provider() -> &'static Path {
    built("liblab_fi.so")
}

/// The host for C programs: `libhost_stub.so`, built like [`ofi_plugin`].
pub fn host_library() -> &'static Path {
    built("libhost_stub.so")
}

/// Compiles a C program over [`host_library`]; every warning is an error, and `options` precede all other
/// options.
pub fn compile_for_host(source: &Path, out: &Path, options: &[String]) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host-stub/c");
    let library = host_library().parent().expect("a library lies in a folder");
    let output = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"])
        .args(options)
        .arg("-I")
        .arg(here.join("include"))
        .arg("-I")
        .arg(here.join("examples"))
        .arg(source)
        .arg("-o")
        .arg(out)
        .arg("-L")
        .arg(library)
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .arg("-lhost_stub")
        .output()
        .expect("there is a C compiler");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", source.display());
}

/// The component for Open MPI; an empty library if Open MPI's headers are not installed.
pub fn mpi_component() -> &'static Path {
    built("libmca_btl_ofi.so")
}

/// The program or plugin of `c/` that the build script made under this name.
pub fn c_program(name: &str) -> PathBuf {
    let path = Path::new(env!("OUT_DIR")).join(name);
    assert!(path.exists(), "the build script makes no {name}");
    path
}

/// The plugin of `c/`; `variant` is a macro of `plugin.c`, or empty for the valid plugin.
pub fn c_plugin(variant: &str) -> PathBuf {
    match variant {
        "" => c_program("libbtl_cma.so"),
        _ => c_program(&format!("libbtl_cma-{variant}.so")),
    }
}

/// The file of this name among the outputs of the packages under test.
fn built(name: &str) -> &'static Path {
    static FILES: OnceLock<Vec<PathBuf>> = OnceLock::new();
    FILES
        .get_or_init(|| given().unwrap_or_else(build))
        .iter()
        .find(|file| file.file_name().is_some_and(|file| file == name))
        .unwrap_or_else(|| panic!("no package makes {name}"))
}

/// The files in the folder `INTEGRATION_FILES`, which were built before: by `./dev test` for all its steps, or by `./dev soak`,
/// whose long runs must not use a working tree that changes.
fn given() -> Option<Vec<PathBuf>> {
    let folder = std::env::var_os("INTEGRATION_FILES")?;
    let files = std::fs::read_dir(folder).expect("INTEGRATION_FILES is a folder");
    Some(files.flatten().map(|file| file.path()).collect())
}

/// Builds plugin, program and component together, so that their dependencies are compiled once;
/// returns the files.
fn build() -> Vec<PathBuf> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .args(["build", "--quiet", "--message-format=json"])
        .args([
            "-p",
            "host-stub-command",
            "-p",
            "btl-ofi-plugin",
            "-p",
            "mca-btl-ofi",
            "-p",
            "host-stub-c",
            "-p",
            "lab-provider",
            "-p",
            "benches",
            "--lib",
            "--bin",
            "host-stub",
        ]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let output = command.output().expect("cargo starts");
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact")
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default())
        .filter_map(|file| file.as_str().map(PathBuf::from))
        .collect()
}

/// The command prefix that runs a program under valgrind, which fails the program with status 99 for an
/// invalid access or a leak: name and arguments. `None`, with a printed line, if valgrind is not
/// installed.
pub fn valgrind() -> Option<Vec<String>> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        skipped(Lacking::Package, "valgrind is not installed");
        return None;
    }
    let suppressions = concat!(env!("CARGO_MANIFEST_DIR"), "/valgrind.supp");
    let fixed = [
        "valgrind",
        "--quiet",
        "--keep-debuginfo=yes",
        "--error-exitcode=99",
        "--leak-check=full",
        "--show-leak-kinds=definite",
        "--errors-for-leak-kinds=definite",
    ];
    let mut words = fixed.map(String::from).to_vec();
    words.push(format!("--suppressions={suppressions}"));
    Some(words)
}
