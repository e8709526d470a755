//! A process sets the variables that providers read from the environment. If the environment hides the requested provider, the
//! refusal names the variable. The limit on descriptors is raised, and a process without free descriptors still ends.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use plugin_api::LogLevel;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::prelude::*;

const ROLE: &str = "BTL_OFI_TEST_THREADS";
const VARIABLE: &str = "FI_SOCKETS_PE_WAITTIME";

/// Opens sockets while another thread reads the environment. Afterwards prints the variable.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn opening_process() {
    let before: Vec<_> = std::env::vars_os().collect();
    let is_open = AtomicBool::new(false);
    let t = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_open.load(Ordering::Relaxed) {
                let now: Vec<_> = std::env::vars_os().collect();
                assert!(before.iter().all(|variable| now.contains(variable)));
            }
        });
        let options = [(
            "btl_ofi_provider_include",
            mca_params::Value::str("sockets"),
        )];
        let t = common::try_open(&common::options(&options), ThreadLevel::Single).unwrap();
        is_open.store(true, Ordering::Relaxed);
        t
    });
    println!("@{:?}", std::env::var_os(VARIABLE));
    t.close().unwrap();
    std::process::exit(0);
}

fn opened_with(value: Option<&str>) -> String {
    let mut command = again(module_path!(), "opening_process");
    command.env_remove(VARIABLE);
    if let Some(value) = value {
        command.env(VARIABLE, value);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|line| line.split_once('@'));
    line.unwrap().1.to_owned()
}

#[test]
fn a_process_with_threads_sets_what_sockets_wants() {
    assert_eq!(opened_with(None), "Some(\"0\")");
}

#[test]
fn the_users_value_stays() {
    assert_eq!(opened_with(Some("5")), "Some(\"5\")");
}

/// Prints the reason why sockets cannot be opened.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn refused_process() {
    let options = [(
        "btl_ofi_provider_include",
        mca_params::Value::str("sockets"),
    )];
    let opened = common::try_open(&common::options(&options), ThreadLevel::Single);
    println!("@{}", opened.err().expect("a refusal"));
    std::process::exit(0);
}

#[test]
fn a_refusal_names_the_filter_of_the_environment() {
    for filter in ["shm", "^sockets", "no_such_provider"] {
        let mut command = again(module_path!(), "refused_process");
        let output = command.env("FI_PROVIDER", filter).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let named = format!(
            "(btl_ofi_provider_include is \"sockets\"; FI_PROVIDER is \"{filter}\" in the environment, which \
             limits what libfabric offers)"
        );
        assert!(text.contains(&named), "{text}");
    }
}

/// The soft and the hard limit on descriptors.
fn limits() -> libc::rlimit {
    let mut limits = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limits` is writable.
    let got = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limits) };
    assert_eq!(got, 0);
    limits
}

fn set_soft_limit(limit: u64) {
    let mut limits = limits();
    limits.rlim_cur = limit;
    // SAFETY: the call only reads the limits.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limits) };
    assert_eq!(set, 0);
}

/// Opens a transport with a low limit on descriptors. Then permits no new descriptor, puts to an unconnected
/// peer, and ends.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn process_without_descriptors() {
    set_soft_limit(200);
    let opened = || common::open("tcp;ofi_rxm", ThreadLevel::Single, &[]);
    let (t, target) = (opened(), opened());
    assert_eq!(limits().rlim_cur, limits().rlim_max.min(1 << 20));
    let mut words = [0u64; 2];
    let region = register(&target, &mut words, Access::all());
    let peer = t.connect(target.address(), 1).unwrap();
    let handle = region.handle();
    // The number that the next descriptor would get. SAFETY: the arguments are integers; the copy
    // is closed immediately.
    let (next, closed) = unsafe {
        let next = libc::dup(0);
        (next, libc::close(next))
    };
    assert!(next > 0 && closed == 0);
    set_soft_limit(next as u64);
    let local = (&raw mut words[1]).cast();
    let put = t.put(peer, local, handle.base(), &handle, 8, None);
    println!("@put {put}");
    for _ in 0..1000 {
        t.progress();
        target.progress();
    }
    drop(region);
    println!(
        "@closed {:?} {:?}",
        t.close().is_ok(),
        target.close().is_ok()
    );
    std::process::exit(0);
}

/// Permits one additional descriptor, for the origin's end of a connection, and puts. The target has no descriptor for its
/// end.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn process_that_cannot_accept() {
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let list = Arc::clone(&said);
    let sink = move |_: LogLevel, line: &str| list.lock().unwrap().push(line.to_owned());
    let _route = btl_ofi::log::route(LogLevel::Warn, Arc::new(sink));
    let provider = std::env::var(ROLE).expect("started by another test, as its child");
    let opened = || common::open(&provider, ThreadLevel::Single, &[]);
    let (t, target) = (opened(), opened());
    let mut words = [0u64; 2];
    let region = common::register(&target, &mut words, Access::all());
    let peer = t.connect(target.address(), 1).unwrap();
    let handle = region.handle();
    // SAFETY: the arguments are integers; the copy is closed immediately.
    let next = unsafe {
        let next = libc::dup(0);
        assert_eq!(libc::close(next), 0);
        next
    };
    set_soft_limit(next as u64 + 1);
    // SAFETY: the argument is a number. Without a failure, the flush below would last forever.
    unsafe { libc::alarm(common::BLOCKED.as_secs() as u32) };
    let (word, patience) = (7u64, common::Patience::times(6));
    let local = (&raw const word).cast_mut().cast();
    let at = handle.base();
    let put = || t.put(peer, local, at, &handle, 8, None);
    let mut status = put();
    // The put may have been accepted; a host's flush would then wait for it.
    let has_ended = || !said.lock().unwrap().is_empty();
    while !has_ended() && patience.lasts() {
        if status.is_again() {
            status = put();
        }
        t.progress();
        target.progress();
        std::thread::yield_now();
    }
    // The target's endpoint has ended; the flush shows how the origin detects this. SAFETY: the
    // peer was connected above.
    let flushed = t.flush(Some(unsafe { peer.as_ref() }));
    println!("@ended {status} {flushed} {:?}", said.lock().unwrap());
    drop((region, t, target));
    std::process::exit(0);
}

#[test]
fn a_process_that_cannot_accept_connections_ends() {
    // Both children run at the same time, because each waits for 10 s.
    let children = ["tcp;ofi_rxm", "net"].map(|provider| {
        let mut command = again(module_path!(), "process_that_cannot_accept");
        command.env(ROLE, provider);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    });
    for child in children {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{output:?}");
        assert!(text.contains("no descriptor is left"), "{text}");
    }
}

#[test]
fn a_process_without_descriptors_ends() {
    let output = again(module_path!(), "process_without_descriptors")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(text.contains("@closed true true"), "{text}");
}
