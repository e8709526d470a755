//! Compiles the C programs of `c/`: those of the plugin's header, the plugin of this ABI and of the imagined next one, and the
//! plugins that a loader must refuse. The outputs lie in `OUT_DIR` under the names of
//! `integration_tests::fixtures`.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a build script reports by panicking"
)]

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The macros that turn `plugin.c` into a plugin that a loader must refuse.
const BAD: [&str; 11] = [
    "BAD_MAGIC",
    "BAD_MAJOR",
    "BAD_SIZE",
    "BAD_ENTRY",
    "BAD_MODULE_MAJOR",
    "BAD_MODULE_ENTRY",
    "BAD_ATTRIBUTES_SIZE",
    "BAD_HANDLE_SIZE",
    "NO_SYMBOL",
    "NO_TABLE",
    "REFUSES_HOST",
];

const SHARED: [&str; 4] = [
    "-shared",
    "-fPIC",
    "-fvisibility=hidden",
    // A table with a missing entry leaves a function unused.
    "-Wno-unused-function",
];

fn main() {
    println!("cargo::rerun-if-changed=c");
    println!("cargo::rerun-if-changed=../plugin-api/include/btl_plugin.h");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    compile(
        "c/one_override.c",
        &out.join("one_override"),
        &[],
        &[],
        &["-ldl"],
    );
    println!("cargo::rerun-if-changed=../host-stub/cuda");
    println!("cargo::rerun-if-changed=../host-stub/c/include");
    let library = ["-shared", "-fPIC", "-I", "../host-stub/c/include"];
    compile(
        "c/fake_cuda.c",
        &out.join("libcuda-fake.so"),
        &[],
        &library,
        &[],
    );
    plugin(&out.join("libbtl_cma.so"), &[]);
    plugin(&out.join("libbtl_cma-FUTURE.so"), &["FUTURE"]);
    let wants = "WANTS_REGISTRATION";
    plugin(&out.join(format!("libbtl_cma-{wants}.so")), &[wants]);
    for bad in BAD {
        plugin(&out.join(format!("libbtl_cma-{bad}.so")), &[bad]);
    }
    // The versions imitate older releases of libfabric.
    let map = "-Wl,--version-script=c/old_libfabric.map";
    for minor in ["4", "13"] {
        let out = out.join(format!("libfabric-1.{minor}.so"));
        let minor = format!("MINOR={minor}");
        compile(
            "c/old_libfabric.c",
            &out,
            &[&minor],
            &["-shared", "-fPIC", map],
            &[],
        );
    }
}

fn plugin(out: &Path, macros: &[&str]) {
    compile("c/plugin.c", out, macros, &SHARED, &[]);
}

/// Compiles and links one file; every warning is an error.
fn compile(source: &str, out: &Path, macros: &[&str], options: &[&str], libraries: &[&str]) {
    let mut command: Command = cc::Build::new().warnings(false).get_compiler().to_command();
    command
        .args(["-std=c11", "-O1", "-g", "-pthread"])
        .args(["-Wall", "-Wextra", "-Werror"])
        .args(options)
        .args(macros.iter().map(|name| format!("-D{name}")))
        .args(["-I", "../plugin-api/include", source, "-o"])
        .arg(out)
        .args(libraries);
    let status = command
        .status()
        .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
