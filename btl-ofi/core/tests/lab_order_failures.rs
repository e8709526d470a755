//! Puts that go by order when nothing confirms them: reads that fail, that never end, that end late; and providers and
//! peers that are refused.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;
mod lab;

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use btl_ofi::Completion;
use common::Calls as _;
use mca_params::Value;
use plugin_api::{Access, Module, Status, ThreadLevel};

use common::{insist, open, options, register, try_open};
use lab::said::Losses;
use lab::{Tally, child, child_role, shape};

const LIMIT: Duration = Duration::from_secs(60);

/// A read that fails, or never ends: the puts that it covers are reported as failed, once each, and no others.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn unconfirmed() {
    child_role();
    let mut tally = Tally::default();
    // The second operation is the read.
    for (fault, flushed) in [("nth=2", Status::ERROR), ("silent=2", Status::FATAL)] {
        for with_callback in [true, false] {
            let faults = format!("seed=1,{fault}");
            shape(&[("CONFIRMS", "0"), ("READ_ORDER", "1"), ("FAULTS", &faults)]);
            let settings = [
                ("btl_ofi_peer_check_interval", Value::Unsigned(20)),
                ("btl_ofi_peer_timeout", Value::Unsigned(100)),
            ];
            let t = open("lab", ThreadLevel::Single, &settings);
            let losses = Losses::default();
            t.on_error(Some(losses.report()));
            let peer = t.connect(t.address(), 0).unwrap();
            let mut window = vec![0u64; 64];
            let region = register(&t, &mut window, Access::all());
            let (h, source, none) = (region.handle(), 7u64, ptr::null_mut());
            let from = ptr::from_ref(&source).cast_mut().cast();
            let calls = AtomicU32::new(0);
            let completion = Completion {
                function: count_failures,
                context: ptr::from_ref(&calls).cast_mut().cast(),
                data: ptr::null_mut(),
            };
            let completion = with_callback.then_some(completion);
            // SAFETY: source, window and counter outlive the transport.
            insist(&t, || unsafe {
                t.put(peer, from, h.base(), none, &h, 8, completion)
            });
            let wanted = match (with_callback, flushed) {
                (true, Status::ERROR) => Status::SUCCESS,
                _ => flushed,
            };
            let what = format!("{fault}, callback: {with_callback}");
            assert_eq!(t.flush(None), wanted, "{what}");
            assert_eq!(t.flush(None), Status::SUCCESS, "{what}: told once");
            assert_eq!(
                calls.load(Ordering::Relaxed),
                u32::from(with_callback),
                "{what}"
            );
            let stats = t.stats();
            assert_eq!(
                (stats.posted, stats.completed, stats.failed),
                (1, 0, 1),
                "{what}"
            );
            if flushed == Status::ERROR {
                // The next read confirms the next put.
                // SAFETY: source and window outlive the transport.
                insist(&t, || unsafe {
                    t.put(peer, from, h.base() + 8, none, &h, 8, None)
                });
                assert_eq!(t.flush(None), Status::SUCCESS, "{what}");
                assert_eq!(window[1], 7, "{what}");
            }
            // SAFETY: connected once.
            unsafe { t.disconnect(peer) };
            region.close().unwrap();
            t.close().unwrap();
            assert_eq!(
                calls.load(Ordering::Relaxed),
                u32::from(with_callback),
                "{what}"
            );
            tally.run += 1;
        }
    }
    tally.tell();
}

unsafe extern "C" fn count_failures(
    _: *mut Module,
    _: *mut plugin_api::Endpoint,
    _: *mut c_void,
    _: *mut plugin_api::Handle,
    context: *mut c_void,
    _: *mut c_void,
    status: i32,
) {
    let call = if status == 0 { 1000 } else { 1 };
    // SAFETY: the test passes a counter that outlives the transport.
    unsafe { &*context.cast::<AtomicU32>() }.fetch_add(call, Ordering::Relaxed);
}

#[test]
fn puts_that_nothing_confirms_fail_once() {
    child("unconfirmed", "unconfirmed", LIMIT).insist("unconfirmed puts");
}

/// A peer is released while a read from it is outstanding, which may end later: its place is not given to another peer.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn a_late_read() {
    child_role();
    // The read never ends.
    shape(&[
        ("CONFIRMS", "0"),
        ("READ_ORDER", "1"),
        ("FAULTS", "seed=1,silent=2"),
    ]);
    let settings = [
        ("btl_ofi_peer_check_interval", Value::Unsigned(20)),
        ("btl_ofi_peer_timeout", Value::Unsigned(0)),
    ];
    let t = open("lab", ThreadLevel::Single, &settings);
    let peer = t.connect(t.address(), 0).unwrap();
    let mut window = vec![0u64; 64];
    let region = register(&t, &mut window, Access::all());
    let (h, source, none) = (region.handle(), 7u64, ptr::null_mut());
    let from = ptr::from_ref(&source).cast_mut().cast();
    // SAFETY: source and window outlive the transport.
    insist(&t, || unsafe {
        t.put(peer, from, h.base(), none, &h, 8, None)
    });
    // SAFETY: connected once.
    let released = unsafe { t.disconnect(peer) };
    assert_ne!(released, Status::SUCCESS);
    let stats = t.stats();
    assert_eq!((stats.posted, stats.failed), (1, 1));
    let other = t.connect(t.address(), 1).unwrap();
    assert_ne!(other, peer, "the read may still name the place");
    region.close().unwrap();
    t.close().unwrap();
    Tally {
        run: 1,
        ..Tally::default()
    }
    .tell();
}

#[test]
fn a_released_peer_keeps_its_place_while_a_read_names_it() {
    child("a_late_read", "late read", LIMIT).insist("a late read");
}

/// What is refused, and why.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn refusals() {
    child_role();
    let refused = |pairs: &[(&str, &str)], why: &str| {
        shape(pairs);
        let lab = [("btl_ofi_provider_include", Value::str("lab"))];
        let opened = try_open(&options(&lab), ThreadLevel::Single);
        let said = opened.err().unwrap().to_string();
        assert!(said.contains(why), "{said}");
    };
    refused(&[("CONFIRMS", "0")], "FI_ORDER_RMA_RAW");
    let by_order = [("CONFIRMS", "0"), ("READ_ORDER", "1")];
    refused(
        &[by_order[0], by_order[1], ("MODE", "CONTEXT")],
        "claims the contexts",
    );
    // A peer that confirms by itself publishes no word.
    shape(&[]);
    let other = open("lab", ThreadLevel::Single, &[]);
    shape(&by_order);
    let t = open("lab", ThreadLevel::Single, &[]);
    let why = t.connect(other.address(), 1).unwrap_err().to_string();
    assert!(
        why.contains("publishes no word") && why.contains("provider lab"),
        "{why}"
    );
    assert!(other.connect(t.address(), 1).is_ok());
    t.close().unwrap();
    other.close().unwrap();
    let tally = Tally {
        refused: 3,
        ..Tally::default()
    };
    tally.tell();
}

#[test]
fn what_cannot_go_by_order_is_refused() {
    child("refusals", "refusals", LIMIT).insist("refusals");
}
