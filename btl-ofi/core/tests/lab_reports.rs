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
use std::time::Duration;

use btl_ofi::ErrorReport;
use mca_params::Value;
use plugin_api::{Access, Module, Status, ThreadLevel};

use common::seen::Seen;
use common::{Calls as _, insist, options, register, try_open};
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

/// The reports of a transport whose first operation fails, a put with a callback, and whose second does not.
fn reports(every: bool) -> Vec<String> {
    shape(&[("FAULTS", "nth=1")]);
    let mut options = options(&[
        ("btl_ofi_provider_include", Value::str("lab")),
        ("btl_ofi_same_node", Value::str("off")),
    ]);
    if every {
        options.report_every_failure();
    }
    let reports: Mutex<Vec<String>> = Mutex::default();
    let t = try_open(&options, ThreadLevel::Single).unwrap();
    t.on_error(Some(ErrorReport {
        function: reported,
        context: (&raw const reports).cast_mut().cast(),
    }));
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
