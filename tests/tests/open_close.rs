//! A component that opens and closes, or fails to open, leaks nothing. Each test does this 200
//! times and compares descriptors, threads, resident memory and shared memory files.
//!
//! Each case runs in a separate process, which its test starts, because the counts are per process.

use std::env;
use std::process::Command;
use std::ptr::null_mut;

use integration_tests::fixtures::ofi_plugin;
use integration_tests::host::TestHost;
use integration_tests::process::run;
use integration_tests::session::{Loaded, Session};
use integration_tests::usage;
use plugin_api::{Status, ThreadLevel};

/// The variable that names the case of a child process.
const CASE: &str = "OPEN_CLOSE_CASE";
/// The number of rounds; it is large enough to show a page that each round leaks: more than
/// [`RESIDENT_SLACK`].
const ROUNDS: usize = 200;
/// The number of rounds before the first count: libraries load, and allocators fill their pools.
const WARM_UP: usize = 50;
/// The permitted growth over all rounds, in bytes, for the allocators; less than the smallest leak
/// of each round would add up to.
const SLACK: usize = 16 * ROUNDS - 1;
/// The permitted growth of resident memory, which grows by whole pages.
const RESIDENT_SLACK: usize = 512 * 1024;
/// The bytes that libfabric's shm provider keeps of each endpoint until the process ends: a record
/// of its name, so that a signal handler can remove its file.
const SHM_RECORD: usize = 288;

/// Runs this file's test `name` again in a separate process, with its case.
fn in_own_process(name: &str, case: &str) {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(CASE, case)
        // Freed memory is returned immediately, so only leaked memory remains.
        .env("MALLOC_TRIM_THRESHOLD_", "0")
        .env("MALLOC_ARENA_MAX", "1")
        // Memory in a thread's cache would count as allocated.
        .env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0");
    let outcome = run(&mut command);
    assert!(outcome.status.success(), "{}", outcome.transcript());
    for line in outcome
        .stdout
        .lines()
        .filter(|line| line.contains("rounds:"))
    {
        println!("{line}");
    }
}

/// Repeats a round, and compares the process's resources before and after. `kept` is the number of
/// bytes that a library is known to keep of each round.
fn holds_no_more(kept: usize, round: impl Fn()) {
    for _ in 0..WARM_UP {
        round();
    }
    let descriptors = usage::descriptors();
    let threads = usage::threads();
    let files = usage::shared_memory_files();
    let (allocated, resident) = (usage::allocated(), usage::resident());
    for _ in 0..ROUNDS {
        round();
    }
    let grown = usage::allocated().saturating_sub(allocated);
    let resident_grown = usage::resident().saturating_sub(resident);
    assert_eq!(usage::descriptors(), descriptors);
    assert_eq!(usage::threads(), threads);
    let own = std::process::id().to_string();
    // `btl_ofi.NODE.PID.STARTED` names the owner; other names may contain the number somewhere.
    let is_own = |name: &String| match name.strip_prefix("btl_ofi.") {
        Some(rest) => rest.split('.').nth(1) == Some(&own),
        None => name.contains(&own),
    };
    let left: Vec<String> = usage::shared_memory_files()
        .into_iter()
        .filter(|name| !files.contains(name) && is_own(name))
        .collect();
    assert_eq!(left, [""; 0], "left in /dev/shm");
    println!(
        "{ROUNDS} rounds: {} descriptors, {threads} threads, {allocated} bytes allocated, grown by \
         {grown}, {} KiB resident, grown by {}",
        descriptors.len(),
        resident / 1024,
        resident_grown / 1024
    );
    assert!(grown <= ROUNDS * kept + SLACK, "{grown} bytes leaked");
    assert!(
        resident_grown <= ROUNDS * kept + RESIDENT_SLACK,
        "resident memory grew by {resident_grown} bytes"
    );
}

/// Opens, initialises, connects to itself, puts, finalises and closes.
fn opens(provider: &str, kept: usize) {
    let host = TestHost::with_provider(provider);
    holds_no_more(kept, || {
        let mut session = Session::new(ofi_plugin(), &host);
        session.memory[0] = 7;
        let (local, remote) = (session.local(0), session.remote(1));
        let put = session.table.put.unwrap();
        let status = loop {
            // SAFETY: all arguments belong to the session, and the flush ends the operation.
            let status = unsafe {
                put(
                    session.module,
                    session.endpoint,
                    local,
                    remote,
                    null_mut(),
                    session.handle,
                    8,
                    0,
                    255,
                    None,
                    null_mut(),
                    null_mut(),
                )
            };
            // The connection is not complete at the first operations.
            if status != Status::TEMP_OUT_OF_RESOURCE {
                break status;
            }
            session.progress();
        };
        assert!(status.is_ok(), "put: {status}");
        assert!(session.flush().is_ok());
        drop(session);
        host.take_log();
    });
}

/// Opens without an available provider, and with an invalid parameter.
fn fails(settings: &[(&str, &str)], wanted: Status) {
    let host = TestHost::new(settings);
    let loaded = Loaded::open(ofi_plugin(), &host);
    holds_no_more(0, || {
        let status = match loaded.open_component(&host) {
            Err(status) => status,
            Ok(component) => {
                // SAFETY: the component was just opened, and is closed once.
                unsafe {
                    let status = loaded.init(component, ThreadLevel::Single).unwrap_err();
                    assert_eq!(loaded.component.close.unwrap()(component), Status::SUCCESS);
                    status
                }
            }
        };
        assert_eq!(status, wanted);
        host.take_log();
    });
}

#[test]
fn shm_opens_and_closes() {
    match env::var(CASE).as_deref() {
        Ok("shm") => opens("shm", SHM_RECORD),
        _ => in_own_process("shm_opens_and_closes", "shm"),
    }
}

#[test]
fn sockets_opens_and_closes() {
    match env::var(CASE).as_deref() {
        Ok("sockets") => opens("sockets", 0),
        _ => in_own_process("sockets_opens_and_closes", "sockets"),
    }
}

#[test]
fn an_unknown_provider_fails_to_open() {
    match env::var(CASE).as_deref() {
        Ok("unknown") => fails(
            &[("btl_ofi_provider_include", "carrier-pigeon")],
            Status::NOT_AVAILABLE,
        ),
        _ => in_own_process("an_unknown_provider_fails_to_open", "unknown"),
    }
}

#[test]
fn a_wrong_parameter_fails_to_open() {
    match env::var(CASE).as_deref() {
        Ok("parameter") => fails(&[("btl_ofi_num_cq_read", "many")], Status::BAD_PARAM),
        _ => in_own_process("a_wrong_parameter_fails_to_open", "parameter"),
    }
}
