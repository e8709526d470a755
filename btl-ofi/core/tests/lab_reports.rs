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
use std::ptr::{self, NonNull};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use btl_ofi::{Completion, Endpoint, ErrorReport, Region, Transport};
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

/// A window of a transport that is its own peer.
struct Own<'a> {
    t: &'a Transport,
    peer: NonNull<Endpoint>,
    // Closed before the window goes.
    region: Region,
    window: Box<[u64]>,
    word: Box<u64>,
}

impl Own<'_> {
    fn of(t: &Transport) -> Own<'_> {
        let mut window = vec![0; 1].into_boxed_slice();
        Own {
            t,
            peer: t.connect(t.address(), 0).unwrap(),
            region: register(t, &mut window, Access::all()),
            window,
            word: Box::new(7),
        }
    }

    /// Puts the word there.
    fn put(&self, done: Option<Completion>) -> Status {
        let (h, none) = (self.region.handle(), ptr::null_mut());
        let word = ptr::from_ref(&*self.word).cast_mut().cast();
        // SAFETY: the word, the window and what `done` names live until the operation is over or the transport is closed.
        unsafe { self.t.put(self.peer, word, h.base(), none, &h, 8, done) }
    }
}

/// Tells of one run.
fn tell_one() {
    Tally {
        run: 1,
        ..Tally::default()
    }
    .tell();
}

/// The reports of a transport whose first operation fails, a put with a callback, and whose second does not.
fn reports(every: bool) -> Vec<String> {
    let reports: Mutex<Vec<String>> = Mutex::default();
    let t = reporting("nth=1", every, &reports);
    let own = Own::of(&t);
    for expected in [Status::ERROR, Status::SUCCESS] {
        let seen = Seen::default();
        insist(&t, || own.put(seen.completion()));
        assert_eq!(t.flush(None), Status::SUCCESS, "the callback says it");
        assert_eq!(seen.status(), expected);
    }
    assert_eq!(own.window[0], 7);
    drop(own);
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
    tell_one();
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
    let (own, seen) = (Own::of(&t), Seen::default());
    assert_eq!(own.put(seen.completion()), Status::SUCCESS);
    assert_eq!(own.put(None), Status::SUCCESS);
    assert_eq!(t.flush(None), Status::FATAL);
    assert_eq!(seen.status(), Status::FATAL);
    assert_eq!(own.put(None), Status::FATAL);
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
    drop(own);
    t.close().unwrap();
    tell_one();
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
    let own = Own::of(&t);
    let blocked = Blocked::default();
    let done = Completion {
        function: block,
        context: (&raw const blocked).cast_mut().cast(),
        data: ptr::null_mut(),
    };
    insist(&t, || own.put(Some(done)));
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
    drop(own);
    t.close().unwrap();
    tell_one();
}

#[test]
fn a_callback_that_blocks_does_not_block_closing() {
    child("callback_blocks", "blocked", LIMIT).insist("blocked");
}
