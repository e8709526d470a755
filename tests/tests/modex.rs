//! Addresses from peers are untrusted input: truncated, random and altered bytes cause no endpoint, or an endpoint
//! whose operations fail, and never a crash.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use integration_tests::fixtures::{c_plugin, ofi_plugin};
use integration_tests::host::TestHost;
use integration_tests::random::Random;
use integration_tests::session::{Session, count_calls};
use plugin_api::{CompletionFn, Endpoint, Status};

/// The process whose address a test forges.
const STRANGER: u64 = 1;

/// Each test holds this lock, because hosts that use a plugin at the same time get each other's log
/// lines.
static ALONE: Mutex<()> = Mutex::new(());

/// Offers `blob` as the stranger's address. Returns the status, the endpoint, and whether the log
/// gives the reason for a missing endpoint.
fn add(session: &Session, host: &TestHost, blob: Vec<u8>) -> (Status, *mut Endpoint, bool) {
    host.set_peer(STRANGER, blob);
    let mut endpoint = null_mut();
    // SAFETY: the module lives; there is one process and room for one endpoint.
    let status =
        unsafe { session.table.add_procs.unwrap()(session.module, 1, &STRANGER, &mut endpoint) };
    let log = host.take_log();
    log.iter().for_each(|line| println!("{line}"));
    let explained = log
        .iter()
        .any(|line| line.contains("process 1 cannot be reached"));
    (status, endpoint, explained)
}

fn remove(session: &Session, endpoint: *mut Endpoint) {
    // SAFETY: add_procs returned the endpoint, which is released once.
    let status = unsafe { session.table.del_procs.unwrap()(session.module, 1, &endpoint) };
    assert_eq!(status, Status::SUCCESS);
}

/// A process without a usable address gets no endpoint, and a log line gives the reason. The status
/// may also be an error.
fn refused(session: &Session, host: &TestHost, blob: Vec<u8>, what: &str) {
    let (status, endpoint, explained) = add(session, host, blob.clone());
    assert!(
        endpoint.is_null() && explained,
        "{what}: {status}, endpoint {endpoint:?} for {blob:02x?}"
    );
}

fn malformed_addresses(plugin: &std::path::Path, host: &TestHost) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let session = Session::new(plugin, host);
    let published: Vec<Vec<u8>> = host.published().into_values().collect();
    let [good] = &published[..] else {
        panic!("wanted one published address, found {}", published.len());
    };
    let mut random = Random::new();
    for length in 0..good.len() {
        refused(&session, host, good[..length].to_vec(), "truncated");
    }
    for extra in [1, 7, 8, 100, 70_000] {
        let mut long = good.clone();
        long.extend(random.bytes(extra));
        refused(&session, host, long, "too long");
    }
    for _ in 0..2000 {
        let length = random.below(3 * good.len());
        let bytes = random.bytes(length);
        refused(&session, host, bytes, "random");
    }
    // The bytes begin like a valid address, so that the following bytes are checked.
    for _ in 0..2000 {
        let mut bytes = good.clone();
        let keep = 4 + random.below(good.len() - 4);
        let length = bytes.len();
        bytes.splice(keep.., random.bytes(length - keep));
        altered(&session, host, bytes);
    }
    for at in 0..good.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[at] = value;
            altered(&session, host, bytes);
        }
    }
    let (status, endpoint, _) = add(&session, host, good.clone());
    assert!(
        status.is_ok() && !endpoint.is_null(),
        "the good one: {status}"
    );
    remove(&session, endpoint);
}

/// An altered address may still be valid; its endpoint can then be released.
fn altered(session: &Session, host: &TestHost, blob: Vec<u8>) {
    let (status, endpoint, explained) = add(session, host, blob.clone());
    println!("{status} {endpoint:?} for {blob:02x?}");
    if endpoint.is_null() {
        assert!(explained, "no endpoint and no reason for {blob:02x?}");
        return;
    }
    assert!(status.is_ok(), "{status} with an endpoint for {blob:02x?}");
    remove(session, endpoint);
}

/// A call that fails for one process adds none: the other process has one release left, which waits for its operations like
/// every last release.
#[test]
fn a_call_that_fails_adds_nobody() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let settings = [
        ("btl_ofi_provider_include", "sockets"),
        ("btl_ofi_same_node", "off"),
    ];
    let host = TestHost::new(&settings);
    let mut session = Session::new(ofi_plugin(), &host);
    host.fail_for_peer(STRANGER, Status::ERROR);
    let mut endpoints = [std::ptr::dangling_mut(); 3];
    let add = session.table.add_procs.unwrap();
    // SAFETY: the module lives; there is room for an endpoint of each process.
    let status = unsafe {
        add(
            session.module,
            3,
            [0, 0, STRANGER].as_ptr(),
            endpoints.as_mut_ptr(),
        )
    };
    assert_eq!(status, Status::ERROR);
    assert_eq!(endpoints, [null_mut(); 3]);

    let calls = AtomicUsize::new(0);
    let context = (&raw const calls).cast_mut().cast();
    let (local, remote) = (session.local(0), session.remote(1));
    let put = session.table.put.unwrap();
    let (module, endpoint, none) = (session.module, session.endpoint, null_mut());
    // SAFETY: all arguments belong to the session, and the release ends the operation.
    while unsafe {
        let told = Some(count_calls as CompletionFn);
        put(
            module,
            endpoint,
            local,
            remote,
            none,
            session.handle,
            8,
            0,
            255,
            told,
            context,
            none.cast(),
        )
    } != Status::SUCCESS
    {
        // The connection is not complete at the first operations.
        session.progress();
    }
    assert_eq!(
        calls.load(Ordering::Relaxed),
        0,
        "the provider must need progress"
    );
    remove(&session, endpoint);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    // SAFETY: the module lives; there is room for one endpoint.
    let status = unsafe { add(module, 1, &0, &mut session.endpoint) };
    assert_eq!(status, Status::SUCCESS);
}

/// Two hosts of a process: neither gets the log lines of the other, not even by closing.
#[test]
fn each_host_has_its_lines() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (host, other) = (
        TestHost::with_provider("shm"),
        TestHost::with_provider("shm"),
    );
    let session = Session::new(ofi_plugin(), &host);
    refused(&session, &host, Vec::new(), "alone");
    let second = Session::new(ofi_plugin(), &other);
    refused(&session, &host, Vec::new(), "the first of two");
    other.take_log();
    refused(&second, &other, Vec::new(), "the second of two");
    drop(session);
    host.take_log();
    refused(&second, &other, Vec::new(), "the second after the first");
    assert!(
        host.take_log().is_empty(),
        "lines after the component was closed"
    );
    let session = Session::new(ofi_plugin(), &host);
    drop(second);
    refused(&session, &host, Vec::new(), "the first after the second");
}

#[test]
fn cma() {
    malformed_addresses(&c_plugin(""), &TestHost::new(&[]));
}

#[test]
fn shm() {
    malformed_addresses(ofi_plugin(), &TestHost::with_provider("shm"));
}

#[test]
fn tcp() {
    malformed_addresses(ofi_plugin(), &TestHost::with_provider("tcp;ofi_rxm"));
}

#[test]
fn sockets() {
    malformed_addresses(ofi_plugin(), &TestHost::with_provider("sockets"));
}
