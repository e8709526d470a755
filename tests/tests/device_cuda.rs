//! Tests the CUDA code on machines without a GPU, over `c/fake_cuda.c`, a fake of the driver's library that the loader
//! finds in its place. The tests show that the right calls are made in the right state, but not how a GPU executes them.

use std::path::{Path, PathBuf};
use std::process::Command;

use integration_tests::fixtures::{c_program, compile_for_host, host_stub, ofi_plugin};
use integration_tests::lab::Lab;
use integration_tests::process::{Outcome, run};
use test_skips::{Lacking, skipped};

/// A folder in which the dynamic loader finds the fake under the name of the driver's library.
fn place() -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fake-cuda");
    std::fs::create_dir_all(&place).unwrap();
    let library = place.join("libcuda.so");
    // Another test may write the file at the same time, so the test writes a separate file and
    // renames it.
    let own = place.join(format!("libcuda.so.{:?}", std::thread::current().id()));
    std::fs::copy(c_program("libcuda-fake.so"), &own).unwrap();
    std::fs::rename(&own, &library).unwrap();
    place
}

fn over_the_fake(arguments: &[&str], devices: &str) -> Command {
    let mut command = Command::new(host_stub());
    command.args(arguments).arg("--plugin").arg(ofi_plugin());
    command.env("LD_LIBRARY_PATH", place());
    command.env("FAKE_CUDA_DEVICES", devices);
    command.env("FAKE_CUDA_SAY", "1");
    command
}

fn host(arguments: &[&str], devices: &str) -> Outcome {
    run(&mut over_the_fake(arguments, devices))
}

/// Compiles a C program that calls the host and the fake.
fn compiled(source: &str, name: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let headers = format!("-I{}", here.join("c/cuda").display());
    let library = format!("-L{}", place().display());
    let needed = String::from("-Wl,--no-as-needed");
    let options = [headers, library, needed, String::from("-lcuda")];
    compile_for_host(&here.join(source), &program, &options);
    program
}

/// Launches two processes of such a program over the fake.
fn launched(program: &Path, arguments: &[&str], provider: &str, fake: &[(&str, &str)]) -> Outcome {
    let mut command = Command::new(host_stub());
    command.args(["launch", "-n", "2", "--provider", provider, "--plugin"]);
    command.arg(ofi_plugin()).arg("--").arg(program);
    command.args(arguments).env("LD_LIBRARY_PATH", place());
    command.env("FAKE_CUDA_SAY", "1");
    let outcome = run(command.envs(fake.iter().copied()));
    let said = outcome.transcript();
    assert!(outcome.status.success(), "{said}");
    assert_eq!(outcome.stdout.matches("passed").count(), 2, "{said}");
    outcome
}

/// Refuses handles of memory, so that the owner's processor serves puts and gets.
const UNSHARED: (&str, &str) = ("FAKE_CUDA_IPC", "unshared");

/// Runs tests of the device suite; returns the fake's counts. `shared`: other processes may open memory.
fn suite(provider: &str, devices: &str, only: &[&str], shared: bool) -> String {
    let check = ["check", "--np", "2", "--suite", "device"];
    let arguments = [&check, only, &["--provider", provider]].concat();
    let mut command = over_the_fake(&arguments, devices);
    if !shared {
        command.env(UNSHARED.0, UNSHARED.1);
    }
    let outcome = run(&mut command);
    let said = outcome.transcript();
    assert!(outcome.status.success(), "{said}");
    assert!(outcome.stdout.ends_with(" passed, 0 failed\n"), "{said}");
    outcome.stderr
}

/// Each counter of each rank is above 0: the fake's memory was used, copies were started, and bounce buffers were pinned. Only
/// memory of the process itself was copied.
fn was_staged(stderr: &str, pinned: bool) {
    let lines: Vec<&str> = stderr
        .lines()
        .filter(|line| line.contains("fake CUDA: ") && line.contains(" allocations, "))
        .filter(|line| !line.contains(" 0 allocations"))
        .collect();
    assert!(lines.len() >= 2, "{stderr}");
    for line in lines {
        assert!(!line.contains(" 0 copies,"), "{line}");
        assert!(!line.contains(" 0 events"), "{line}");
        assert!(line.ends_with(" 0 copies of opened memory"), "{line}");
        assert_eq!(!line.contains(" 0 pinned"), pinned, "{line}");
    }
}

/// There are two devices: the memory of the second belongs to no context, like memory of pools.
#[test]
fn device_tests_over_each_provider() {
    for provider in ["shm", "tcp;ofi_rxm", "sockets"] {
        let said = suite(provider, "2", &["--only", "device/"], false);
        was_staged(&said, true);
        // The largest pinned range is a mailbox of eight lanes of two megabytes, from which the
        // bytes of peers are copied.
        let pinned = said.lines().filter_map(|line| {
            let (_, rest) = line.split_once("the largest of ")?;
            rest.split_once(" KiB")?.0.parse::<usize>().ok()
        });
        let mailboxes = pinned.filter(|kib| *kib >= 16 << 10).count();
        assert_eq!(mailboxes, 2, "{said}");
    }
}

#[test]
fn the_window_suite_on_the_device() {
    was_staged(&suite("shm", "1", &[], false), true);
}

/// The same where puts and gets go from memory to memory.
#[test]
fn the_window_suite_on_memory_that_is_opened() {
    let said = suite("shm", "1", &[], true);
    let counts = said
        .lines()
        .filter(|line| line.ends_with(" copies of opened memory"));
    let copied = counts.filter(|line| !line.ends_with(" 0 copies of opened memory"));
    assert_eq!(copied.count(), 2, "{said}");
}

/// Ranks on one device, and each on its own. The program counts the copies.
#[test]
fn puts_and_gets_of_memory_that_is_opened() {
    let program = compiled("c/opened_memory.c", "opened_memory");
    for provider in ["shm", "tcp;ofi_rxm"] {
        for step in ["0", "2"] {
            let fake = [("FAKE_CUDA_DEVICES", "3")];
            launched(&program, &["opened", step], provider, &fake);
        }
    }
}

/// Memory for which the driver gives no handle, that it does not open, managed memory, memory of a pool (of a device with an odd
/// number), and another node.
#[test]
fn memory_that_cannot_be_opened_is_staged() {
    let program = compiled("c/opened_memory.c", "not_opened_memory");
    let two = ("FAKE_CUDA_DEVICES", "2");
    let apart = ("OMPI_MCA_host_ranks_per_node", "1");
    for (arguments, setting) in [
        (&["staged", "0"][..], UNSHARED),
        (&["staged", "0"], ("FAKE_CUDA_IPC", "unopened")),
        (&["staged", "0", "managed"], two),
        (&["staged", "1"], two),
        (&["staged", "0"], apart),
    ] {
        launched(&program, arguments, "shm", &[setting]);
    }
}

/// A program's own copy functions use a stream of the program, also where the driver could copy from memory to memory.
#[test]
fn a_program_copies_on_its_own_stream() {
    let source = "../host-stub/c/examples/cuda_streams.c";
    let program = compiled(source, "example-cuda_streams");
    for provider in ["shm", "tcp;ofi_rxm"] {
        let outcome = launched(&program, &[], provider, &[]);
        was_staged(&outcome.stderr, true);
    }
}

/// The operation ends with an error that names the copy.
#[test]
fn a_copy_that_fails_while_others_are_under_way() {
    let check = ["check", "--np", "2", "--suite", "device", "--only"];
    let mut command = Command::new(host_stub());
    command
        .args(check)
        .args(["device/large", "--provider", "shm"]);
    command.arg("--plugin").arg(ofi_plugin());
    command.env("LD_LIBRARY_PATH", place());
    command.env(UNSHARED.0, UNSHARED.1);
    let outcome = run(command.env("FAKE_CUDA_EVENTS_FAIL", "1"));
    let said = outcome.transcript();
    assert!(outcome.stdout.contains("0 passed, 1 failed"), "{said}");
    for part in [
        "a put on 3145851 bytes of device memory",
        "cuMemcpyAsync of 131072 bytes",
        "cuEventQuery returned CUDA_ERROR_ILLEGAL_ADDRESS",
    ] {
        assert!(outcome.stderr.contains(part), "no {part}: {said}");
    }
}

#[test]
fn info_names_the_devices_and_the_level() {
    let outcome = host(&["info", "--provider", "shm"], "2");
    let said = outcome.transcript();
    assert!(outcome.status.success(), "{said}");
    for line in [
        "fake CUDA device 0",
        "fake CUDA device 1",
        "level 4",
        "CUDA: copies by the transport",
    ] {
        assert!(outcome.stdout.contains(line), "no {line}: {said}");
    }
}

/// The kernel's side of the ring needs compute capability 7.0; without it, the level is 2.
#[test]
fn an_old_device_starts_nothing() {
    let mut command = Command::new(host_stub());
    command.args(["info", "--provider", "shm", "--plugin"]);
    command.arg(ofi_plugin()).env("LD_LIBRARY_PATH", place());
    command.env("FAKE_CUDA_DEVICES", "1");
    let outcome = run(command.env("FAKE_CUDA_CAPABILITY", "6"));
    let said = outcome.transcript();
    assert!(outcome.status.success(), "{said}");
    for line in ["level 2", "its compute capability is 6.0"] {
        assert!(outcome.stdout.contains(line), "no {line}: {said}");
    }
}

/// A driver without a device, or with an excluded device, counts as no driver. The host reports the
/// reason.
#[test]
fn without_a_device_there_is_level_1() {
    for (devices, setting, why) in [
        (
            "0",
            "1",
            "no device is known: the CUDA driver has no device",
        ),
        ("1", "0", "no device is known: host_cuda is off"),
    ] {
        let info = ["info", "--provider", "shm", "--mca", "host_cuda", setting];
        let outcome = host(&info, devices);
        let said = outcome.transcript();
        assert!(outcome.status.success(), "{said}");
        assert!(outcome.stdout.contains("level 1"), "{said}");
        assert!(outcome.stdout.contains(why), "{said}");
    }
}

/// The driver is not started for a program without devices, because it costs each process files and
/// time.
#[test]
fn a_host_that_wants_no_devices_starts_no_driver() {
    for provider in ["shm", "tcp;ofi_rxm"] {
        let check = ["check", "--np", "2", "--only", "window/create"];
        let unwanted = ["--mca", "host_cuda", "0", "--provider", provider];
        let outcome = host(&[check, unwanted].concat(), "1");
        let said = outcome.transcript();
        assert!(outcome.status.success(), "{said}");
        assert!(!outcome.stderr.contains("fake CUDA"), "{said}");
    }
}

/// A provider that accesses the memory itself and accepts copy functions: first one of the user's functions, with
/// the driver's copies in place of the other, then none.
#[test]
fn one_copy_function_over_a_provider() {
    let lab = Lab::default();
    let mut command = Command::new(c_program("one_override"));
    command
        .arg(ofi_plugin())
        .args(["btl_ofi_provider_include=lab", "btl_ofi_hmem=on"])
        .env("LD_LIBRARY_PATH", place());
    let shape = [
        ("HMEM", "1"),
        ("HMEM_OVERRIDE", "1"),
        ("HMEM_IFACES", "CUDA,ROCR"),
    ];
    lab.serve(&mut command, shape);
    let outcome = run(&mut command);
    let said = outcome.transcript();
    assert!(outcome.status.success(), "{said}");
    assert!(outcome.stdout.contains("all as it should be"), "{said}");
}

/// The device header compiles for a device, and the shipped kernel was made from it.
#[test]
fn the_header_compiles_for_a_device() {
    let stub = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host-stub");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("started.ptx");
    let output = Command::new("clang++")
        .args(["-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_70"])
        .args(["-nocudainc", "-nocudalib", "-O2", "-S", "-Wall", "-Wextra"])
        .args(["-Werror", "-Wno-unknown-cuda-version", "-I"])
        .arg(stub.join("c/include"))
        .arg("-o")
        .arg(&out)
        .arg(stub.join("cuda/started.cu"))
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            return skipped(
                Lacking::Package,
                format!("clang++ does not start: {error} (Debian: clang)"),
            );
        }
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("No available targets") || said.contains("unable to create target") {
        return skipped(
            Lacking::Package,
            "this Clang makes no code for CUDA devices",
        );
    }
    assert!(output.status.success(), "{said}");
    let made = std::fs::read_to_string(&out).unwrap();
    let shipped = std::fs::read_to_string(stub.join("cuda/started.ptx")).unwrap();
    // Another Clang numbers registers differently; the synchronising instructions must be equal.
    let of_memory = |ptx: &str| -> Vec<String> {
        let of_it = |l: &&str| [".sys.", ".entry", ".target"].iter().any(|w| l.contains(w));
        let words = |l: &str| l.split_whitespace().next().map(String::from);
        ptx.lines().filter(of_it).filter_map(words).collect()
    };
    assert_eq!(of_memory(&made), of_memory(&shipped));
    assert_eq!(made.matches("ld.acquire.sys").count(), 22, "{made}");
}
