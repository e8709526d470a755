//! The examples in C over `libhost_stub.so`; every compiler warning is an error.

use std::path::{Path, PathBuf};
use std::process::Command;

use integration_tests::fixtures::{
    PROVIDERS, c_plugin, compile_for_host, host_stub, ofi_plugin, valgrind,
};
use integration_tests::lab::Lab;
use integration_tests::process::{Outcome, run};

/// Compiles an example, and runs it as a job of each number of ranks over libfabric, and of the first number over the C
/// plugin. The C interface does not depend on the provider; `host-stub check` tests each provider.
fn example(name: &str, ranks: &[u32]) {
    everywhere(name, ranks, &compile(name, "../host-stub/c/examples"));
}

/// The same for a test's own program.
fn program(name: &str, ranks: &[u32]) {
    everywhere(name, ranks, &compile(name, "c"));
}

fn everywhere(name: &str, ranks: &[u32], out: &Path) {
    let plugin = c_plugin("");
    passes(name, ranks[0], &["--plugin", plugin.to_str().unwrap()], out);
    for count in ranks {
        passes(name, *count, &over("shm"), out);
    }
}

/// Arguments for a job over our plugin and a provider.
fn over(provider: &str) -> [&str; 4] {
    [
        "--plugin",
        ofi_plugin().to_str().unwrap(),
        "--provider",
        provider,
    ]
}

/// A program under the launcher, with arguments of the launcher and of its own.
fn launch(count: u32, arguments: &[&str], program: &Path, own: &[&str]) -> Command {
    let mut command = Command::new(host_stub());
    command
        .args(["launch", "-n", &count.to_string()])
        .args(arguments)
        .arg("--")
        .arg(program)
        .args(own);
    command
}

/// Each rank said that it passed.
fn passed(name: &str, count: u32, outcome: &Outcome) {
    let said = outcome.transcript();
    assert!(outcome.status.success(), "{name}, {count} ranks: {said}");
    let passed = outcome.stdout.matches("passed\n").count();
    assert_eq!(passed, count as usize, "{name}, {count} ranks: {said}");
}

/// Runs a program as `count` ranks; each prints that it passed.
fn passes(name: &str, count: u32, arguments: &[&str], program: &Path) {
    passes_with(name, count, arguments, program, &[]);
}

/// The same with arguments of the program.
fn passes_with(name: &str, count: u32, arguments: &[&str], program: &Path, own: &[&str]) {
    let outcome = run(&mut launch(count, arguments, program, own));
    passed(name, count, &outcome);
}

/// Compiles a program of a folder.
fn compile(name: &str, folder: &str) -> PathBuf {
    compile_with(name, folder, "", &[])
}

/// Compiles a program as `variant`, with `options` before all others.
fn compile_with(name: &str, folder: &str, variant: &str, options: &[String]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("example-{name}{variant}"));
    compile_for_host(&source.join(format!("{name}.c")), &out, options);
    out
}

/// The first call of `host_calls.h` that uses fields which an older `host_coll_args_t` does not have.
const NEWER_CALL: &str = "static inline int host_allgatherv(";

/// Compiles `tables.c` with an older or newer `host_stub.h`: each change replaces one text of the header. An older header
/// has no calls with lists of blocks.
fn compile_with_header(variant: &str, changes: &[(&str, &str)]) -> PathBuf {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host-stub/c/include");
    let mut text = std::fs::read_to_string(include.join("host_stub.h")).unwrap();
    let mut calls = std::fs::read_to_string(include.join("host_calls.h")).unwrap();
    if variant == "OLDER" {
        let newer = calls.find(NEWER_CALL).unwrap();
        calls.truncate(calls[..newer].rfind("/*").unwrap());
        calls.push_str("#endif\n");
    }
    for (old, new) in changes {
        assert_eq!(text.matches(old).count(), 1, "host_stub.h: {old}");
        text = text.replace(old, new);
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("header-{variant}"));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("host_stub.h"), text).unwrap();
    std::fs::write(folder.join("host_calls.h"), calls).unwrap();
    let options = [format!("-D{variant}"), format!("-I{}", folder.display())];
    compile_with("tables", "c", variant, &options)
}

#[test]
fn hello() {
    example("hello", &[1, 2]);
}

/// README's program for C, with a check of its sum.
#[test]
fn the_program_of_readme() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(root.join("README.md")).unwrap();
    let section = text
        .split("\n## ")
        .find(|section| section.starts_with("C without MPI"));
    let lines = section.unwrap().lines();
    let mut program: String = lines
        .skip_while(|line| !line.starts_with("    #include"))
        .map_while(|line| line.strip_prefix("    "))
        .fold(String::new(), |all, line| all + line + "\n");
    let end = "    return 0;\n}";
    assert_eq!(program.matches(end).count(), 1, "{program}");
    let checked = "    return puts(sum == 42 * size ? \"passed\" : \"wrong sum\") < 0;\n}";
    program = program.replace(end, checked);
    let asked = "MUST(host_init());\n";
    assert_eq!(program.matches(asked).count(), 1, "{program}");
    program = program.replace(asked, &format!("{asked}    int size = host_size();\n"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("readme.c"), program).unwrap();
    everywhere(
        "readme",
        &[1, 3],
        &compile("readme", folder.to_str().unwrap()),
    );
}

/// Tasks that ranks take by fetch-and-add from one counter.
#[test]
fn counter() {
    example("counter", &[1, 3]);
}

/// A halo exchange by strided puts between fences.
#[test]
fn halo() {
    example("halo", &[1, 3]);
}

#[test]
fn hash_table() {
    example("hash_table", &[1, 3]);
}

/// The test uses shared memory, which behaves the same with every provider, and each provider without shared memory.
/// Without shared memory, the last message of a call leaves only with progress.
#[test]
fn ranks_that_compute_hold_nobody_up() {
    let program = compile("computes", "c");
    let apart = PROVIDERS.map(|provider| (provider, "off"));
    for (provider, same_node) in [("shm", "auto")].into_iter().chain(apart) {
        let mca = ["--mca", "btl_ofi_same_node", same_node];
        let arguments = [&over(provider)[..], &mca].concat();
        passes("computes", 4, &arguments, &program);
    }
}

/// The test uses shared memory and messages, for memory of the host and of a device.
#[test]
fn ranks_that_wait_serve_others_at_once() {
    let program = compile("asked_while_waiting", "c");
    let name = "asked_while_waiting";
    for (provider, same_node) in [("shm", "auto"), ("tcp;ofi_rxm", "auto"), ("net", "off")] {
        let mca = |name, value| ["--mca", name, value];
        let route = mca("btl_ofi_same_node", same_node);
        let device = mca("host_pretended_devices", "1");
        let waits = [&over(provider)[..], &route, &device].concat();
        passes(name, 2, &waits, &program);
        let thread = mca("host_progress_thread", "1");
        let computes = [&waits[..], &thread].concat();
        passes_with(name, 2, &computes, &program, &["thread"]);
    }
}

#[test]
fn windows_of_two_tables_side_by_side_and_a_hook() {
    program("windows", &[2, 4]);
}

#[test]
fn communicators_collectives_and_an_overriding_layer() {
    program("collectives", &[2, 4]);
}

/// The C interface runs under valgrind: no invalid access, no leak. Calls with HOST_PROC_NULL, entries of a table and copies of
/// a device need no other rank. The test uses libbtl_ofi.so, because the C plugin cannot run under valgrind (docs/testing.md).
#[test]
fn examples_under_valgrind() {
    let Some(valgrind) = valgrind() else { return };
    for (name, ranks) in [
        ("windows", 2),
        ("collectives", 2),
        ("no_rank", 1),
        ("every_coll_entry", 1),
        ("own_device", 1),
    ] {
        // Other tests compile the programs at the same time.
        let program = compile_with(name, "c", "-valgrind", &[]);
        let checker = Path::new(&valgrind[0]);
        let options = valgrind[1..].iter().map(String::as_str);
        let own: Vec<&str> = options.chain(program.to_str()).collect();
        let outcome = run(&mut launch(ranks, &over("shm"), checker, &own));
        passed(name, ranks, &outcome);
        let said = outcome.transcript();
        assert!(!said.contains("definitely lost"), "{name}: {said}");
    }
}

/// Each entry of a window's table, from the public call through the functions of two C layers.
#[test]
fn every_entry_of_a_window() {
    program("every_rma_entry", &[2, 3]);
}

/// Waits and frees that fail, over the C plugin, whose operations take long, and whose progress fails from one of 13 bytes on.
#[test]
fn waits_over_a_transport_that_breaks() {
    let program = compile("failed_waits", "c");
    let plugin = c_plugin("");
    let mca = ["--mca", "host_win_table", "btl"];
    let arguments = [&["--plugin", plugin.to_str().unwrap()], &mca[..]].concat();
    let outcome = run(launch(1, &arguments, &program, &[])
        .env("CMA_DELAY_US", "1000000")
        .env("CMA_BREAKING_BYTES", "13"));
    let said = outcome.transcript();
    assert!(outcome.stdout.contains("passed\n"), "{said}");
}

/// If one rank refuses a collective creation, the other ranks get an error.
#[test]
fn what_one_rank_gets_wrong() {
    let program = compile("refused_by_one", "c");
    let plugin = c_plugin("");
    for ranks in [2, 3] {
        let arguments = ["--plugin", plugin.to_str().unwrap()];
        passes("refused_by_one", ranks, &arguments, &program);
    }
}

/// Puts and updates from read-only memory, over a provider that pins memory. Neither uses shared memory.
#[test]
fn constants_as_origins() {
    let program = compile("constants", "c");
    let mca = [
        ["--mca", "host_win_table", "btl"],
        ["--mca", "btl_ofi_same_node", "off"],
    ];
    let arguments = [&over("lab")[..], mca.as_flattened()].concat();
    let lab = Lab::default();
    let mut command = launch(2, &arguments, &program, &[]);
    lab.serve(&mut command, [("PINS", "1")]);
    passed("constants", 2, &run(&mut command));
}

/// Each entry of a table of collectives, tested in the same way.
#[test]
fn every_entry_of_a_communicator() {
    program("every_coll_entry", &[1, 3]);
}

/// Calls of windows with HOST_PROC_NULL as the target.
#[test]
fn transfers_to_no_rank() {
    program("no_rank", &[1, 2]);
}

/// Two tasks of one thread are inside C layers at the same time.
#[test]
fn layers_of_suspended_tasks() {
    program("suspended_layers", &[1, 2]);
}

fn tables_pass(program: &Path) {
    passes("tables", 2, &over("shm"), program);
}

/// Tables of a program that was compiled with this host's header.
#[test]
fn tables_of_this_host() {
    tables_pass(&compile("tables", "c"));
}

/// Fewer collectives, functions of windows and hooks than this host knows.
#[test]
fn tables_of_an_older_program() {
    tables_pass(&compile_with_header(
        "OLDER",
        &[
            (
                "#define HOST_COLL_ENTRIES 13\n",
                "#define HOST_COLL_ENTRIES 5\n",
            ),
            ("#define HOST_COLL_ROOM 64\n", "#define HOST_COLL_ROOM 5\n"),
            (
                "#define HOST_RMA_ENTRIES 31\n",
                "#define HOST_RMA_ENTRIES 4\n",
            ),
            ("#define HOST_RMA_ROOM 64\n", "#define HOST_RMA_ROOM 4\n"),
            ("    struct host_blocks_t given;\n", ""),
            ("    struct host_blocks_t taken;\n", ""),
            ("    void (*yield_now)(void);\n", ""),
            (
                "    host_copy_from_strided_fn copy_from_hmem_strided;\n",
                "",
            ),
            ("    host_copy_to_strided_fn copy_to_hmem_strided;\n", ""),
        ],
    ));
}

/// More collectives, functions and hooks, within the size of this host's tables and beyond, and
/// longer structures.
#[test]
fn tables_of_a_newer_program() {
    let later = |end: &str| format!("    void *(*later)(void);\n}} {end};");
    let (hooks, overrides) = (later("crt_hooks_t"), later("host_overrides_t"));
    tables_pass(&compile_with_header(
        "NEWER",
        &[
            (
                "#define HOST_COLL_ENTRIES 13\n",
                "#define HOST_COLL_ENTRIES 15\n",
            ),
            ("#define HOST_COLL_ROOM 64\n", "#define HOST_COLL_ROOM 66\n"),
            (
                "#define HOST_RMA_ENTRIES 31\n",
                "#define HOST_RMA_ENTRIES 33\n",
            ),
            ("#define HOST_RMA_ROOM 64\n", "#define HOST_RMA_ROOM 66\n"),
            (
                "} host_coll_args_t;",
                "    uint64_t later;\n} host_coll_args_t;",
            ),
            ("} crt_hooks_t;", &hooks),
            ("} host_overrides_t;", &overrides),
        ],
    ));
}

/// The level is the minimum of the devices' and the parameter's, and level 1 refuses device memory.
#[test]
fn levels_of_device_support() {
    let program = compile("device_level", "c");
    for limit in ["1", "2", "3", "4"] {
        let parameters = [
            ["--mca", "host_pretended_devices", "1"],
            ["--mca", "host_device_level", limit],
        ];
        let arguments = [&over("shm")[..], parameters.as_flattened()].concat();
        passes_with("device_level", 2, &arguments, &program, &[limit]);
    }
}

/// A layer's allreduce gets buffers on a device if it supports them, and otherwise host memory.
#[test]
fn a_collective_of_the_programs_own_on_a_device() {
    let program = compile("device_coll", "../host-stub/c/examples");
    let arguments = by_memory();
    for ranks in [1, 2, 3] {
        passes("device_coll", ranks, &arguments, &program);
    }
}

/// The arguments of a job with a simulated device, whose ranks share memory.
fn by_memory() -> Vec<&'static str> {
    [&over("shm")[..], &["--mca", "host_pretended_devices", "1"]].concat()
}

/// The same arguments for ranks that share no memory.
fn by_messages() -> Vec<&'static str> {
    let mut arguments = by_memory();
    arguments[3] = "tcp;ofi_rxm";
    arguments.extend(["--mca", "btl_ofi_same_node", "off"]);
    arguments
}

#[test]
fn windows_and_buffers_on_a_device() {
    let program = compile("device", "../host-stub/c/examples");
    for arguments in [by_memory(), by_messages()] {
        passes("device", 2, &arguments, &program);
    }
}

/// The same test with a provider that accepts the copy functions of the program's device, so the transport
/// makes no copies.
#[test]
fn a_device_whose_functions_the_provider_takes() {
    // The output has its own name, because another test compiles the program at the same time.
    let program = compile_with("own_device", "c", "-honoured", &[]);
    let lab = Lab::default();
    let mut command = launch(2, &over("lab"), &program, &["honoured"]);
    let shape = [
        ("HMEM", "1"),
        ("HMEM_OVERRIDE", "1"),
        ("HMEM_IFACES", "ROCR"),
    ];
    lab.serve(&mut command, shape);
    command.env("OMPI_MCA_btl_ofi_hmem", "on");
    passed("own_device", 2, &run(&mut command));
}

/// A thread plays the role of a kernel; the main thread's progress serves it, then a progress thread. (`device_ways.rs`
/// runs the same thread over other providers.)
#[test]
fn operations_that_a_device_starts() {
    let program = compile_with(
        "device_ring",
        "../host-stub/c/examples",
        "",
        &["-pthread".into()],
    );
    for (mut arguments, keeper) in [(by_memory(), "0"), (by_messages(), "1")] {
        arguments.extend(["--mca", "host_progress_thread", keeper]);
        passes("device_ring", 2, &arguments, &program);
    }
}

/// The program's own device with copy functions in C, over every provider.
#[test]
fn a_device_of_the_programs_own() {
    let program = compile("own_device", "c");
    for provider in PROVIDERS {
        passes("own_device", 2, &over(provider), &program);
    }
}
