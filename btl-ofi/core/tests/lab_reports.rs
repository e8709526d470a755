//! What the error function is told of failed operations whose callbacks say so, too.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;
mod lab;

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use btl_ofi::{Completion, ErrorReport, Transport};
use mca_params::Value;
use plugin_api::{Access, Module, Status, ThreadLevel};

use common::seen::Seen;
use common::{Calls as _, insist, open, options, register, try_open};
use lab::{Tally, child, child_role, shape};

const LIMIT: Duration = Duration::from_secs(60);

unsafe extern "C" fn reported(
    _: *mut Module,
    _: u32,
    _: *mut plugin_api::Endpoint,
    _: u64,
    _: i32,
    info: *const c_char,
    context: *mut c_void,
) {
    // SAFETY: the test passes a list that outlives the transport; info is a C string.
    let (reports, info) = unsafe { (&*context.cast::<Mutex<Vec<String>>>(), CStr::from_ptr(info)) };
    let info = info.to_string_lossy().into_owned();
    reports.lock().unwrap().push(info);
}

/// A transport over the provider, with these faults, whose reports are kept.
fn reporting(faults: &str, every: bool, kept: &Mutex<Vec<String>>) -> Transport {
    shape(&[("FAULTS", faults)]);
    let mut options = options(&[
        ("btl_ofi_provider_include", Value::str("lab")),
        ("btl_ofi_same_node", Value::str("off")),
    ]);
    if every {
        options.report_every_failure();
    }
    let t = try_open(&options, ThreadLevel::Single).unwrap();
    t.on_error(Some(ErrorReport {
        function: reported,
        context: std::ptr::from_ref(kept).cast_mut().cast(),
    }));
    t
}

/// The reports of a transport whose first operation fails, a put with a callback, and whose second does not.
fn reports(every: bool) -> Vec<String> {
    let reports: Mutex<Vec<String>> = Mutex::default();
    let t = reporting("nth=1", every, &reports);
    let peer = t.connect(t.address(), 0).unwrap();
    let mut window = [0u64; 1];
    let region = register(&t, &mut window, Access::all());
    let (mut word, none, h) = (7u64, ptr::null_mut(), region.handle());
    for expected in [Status::ERROR, Status::SUCCESS] {
        let seen = Seen::default();
        let done = seen.completion();
        // SAFETY: word, window and `seen` live until the flush has returned.
        insist(&t, || unsafe {
            t.put(peer, (&raw mut word).cast(), h.base(), none, &h, 8, done)
        });
        assert_eq!(t.flush(None), Status::SUCCESS, "the callback says it");
        assert_eq!(seen.status(), expected);
    }
    assert_eq!(window[0], 7);
    drop(region);
    t.close().unwrap();
    reports.into_inner().unwrap()
}

#[test]
#[ignore = "a child process of other tests, which start it"]
fn first_operation_fails() {
    child_role();
    assert_eq!(reports(false), [""; 0], "its callback says it");
    let [report] = &reports(true)[..] else {
        panic!("one report")
    };
    assert!(
        report.starts_with("1 operation(s) to process 0 failed: "),
        "{report}"
    );
    Tally {
        run: 1,
        ..Tally::default()
    }
    .tell();
}

#[test]
fn every_failure_is_reported_where_asked_for() {
    child("first_operation_fails", "reports", LIMIT).insist("reports");
}

/// What was posted before a queue can no longer be read is reported, and so is the module, once.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn queue_cannot_be_read() {
    child_role();
    let kept: Mutex<Vec<String>> = Mutex::default();
    let t = reporting("unreadable=2", false, &kept);
    let peer = t.connect(t.address(), 0).unwrap();
    let mut window = [0u64; 1];
    let region = register(&t, &mut window, Access::all());
    let (mut word, none, h) = (7u64, ptr::null_mut(), region.handle());
    let (word, seen) = ((&raw mut word).cast(), Seen::default());
    let put = |done| {
        // SAFETY: word, window and `seen` live until the transport is closed.
        unsafe { t.put(peer, word, h.base(), none, &h, 8, done) }
    };
    assert_eq!(put(seen.completion()), Status::SUCCESS);
    assert_eq!(put(None), Status::SUCCESS);
    assert_eq!(t.flush(None), Status::FATAL);
    assert_eq!(seen.status(), Status::FATAL);
    assert_eq!(put(None), Status::FATAL);
    for _ in 0..100 {
        t.progress();
    }
    let reports: Vec<String> = std::mem::take(&mut *kept.lock().unwrap());
    let of_queue = |report: &&String| report.contains("fi_cq_read returned -5");
    assert_eq!(
        reports.iter().filter(of_queue).count(),
        2,
        "the peer and the module: {reports:?}"
    );
    drop(region);
    t.close().unwrap();
    Tally {
        run: 1,
        ..Tally::default()
    }
    .tell();
}

#[test]
fn a_queue_that_cannot_be_read_ends_the_module() {
    child("queue_cannot_be_read", "unreadable", LIMIT).insist("unreadable");
}

/// What a callback does that waits for its host.
#[derive(Default)]
struct Blocked {
    entered: AtomicBool,
    released: AtomicBool,
}

unsafe extern "C" fn block(
    _: *mut Module,
    _: *mut plugin_api::Endpoint,
    _: *mut c_void,
    _: *mut plugin_api::Handle,
    context: *mut c_void,
    _: *mut c_void,
    _: i32,
) {
    // SAFETY: the context is the test's, which outlives the operation.
    let blocked = unsafe { &*context.cast::<Blocked>() };
    blocked.entered.store(true, Ordering::Release);
    while !blocked.released.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
}

/// A callback of a failed operation that waits for its host does not keep the host from closing.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn callback_blocks() {
    child_role();
    shape(&[("FAULTS", "nth=1,errno=108")]);
    let same_node = ("btl_ofi_same_node", Value::str("off"));
    let t = open("lab", ThreadLevel::Multiple, &[same_node]);
    let peer = t.connect(t.address(), 0).unwrap();
    let mut window = [0u64; 1];
    let region = register(&t, &mut window, Access::all());
    let (mut word, none, h) = (7u64, ptr::null_mut(), region.handle());
    let blocked = Blocked::default();
    let done = Completion {
        function: block,
        context: (&raw const blocked).cast_mut().cast(),
        data: ptr::null_mut(),
    };
    // SAFETY: word, window and `blocked` live until the transport is closed.
    insist(&t, || unsafe {
        let word = (&raw mut word).cast();
        t.put(peer, word, h.base(), none, &h, 8, Some(done))
    });
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !blocked.entered.load(Ordering::Acquire) {
                t.progress();
            }
        });
        while !blocked.entered.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        t.flush_for_close();
        blocked.released.store(true, Ordering::Release);
    });
    drop(region);
    t.close().unwrap();
    Tally {
        run: 1,
        ..Tally::default()
    }
    .tell();
}

#[test]
fn a_callback_that_blocks_does_not_block_closing() {
    child("callback_blocks", "blocked", LIMIT).insist("blocked");
}
