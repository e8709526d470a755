//! Updates that travel as messages and are not reported: their order, flushes that do not wait for them, and targets that
//! refuse them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use std::ptr::{self, NonNull};

use btl_ofi::{Endpoint, Handle, Transport};
use common::Calls as _;
use plugin_api::{Access, BtlAtomicOp, OpFlags, Status, ThreadLevel};

use common::attending::attended;
use common::{insist, open, register};

fn fetch_add(t: &Transport, peer: NonNull<Endpoint>, h: &Handle, old: &mut u64) {
    let (none, out) = (ptr::null_mut(), ptr::from_mut(old).cast());
    let (op, flags) = (BtlAtomicOp::Add, OpFlags::empty());
    // SAFETY: the tests keep what they pass until it is done.
    insist(t, || unsafe {
        t.atomic_fop(peer, out, h.base(), none, h, op, 1, flags, None)
    });
}

fn add(t: &Transport, peer: NonNull<Endpoint>, h: &Handle, operand: u64) -> bool {
    // SAFETY: the endpoint is connected.
    t.add_unreported(unsafe { peer.as_ref() }, h, h.base(), operand)
        .is_some()
}

/// Over each provider, two transports; the second has a window of one word, which the first reaches. In the end every operation
/// that was counted is over.
fn with_pairs(test: impl Fn(&Transport, &Transport, NonNull<Endpoint>, &Handle)) {
    for provider in ["tcp;ofi_rxm", "net"] {
        let a = open(provider, ThreadLevel::Single, &[]);
        let b = open(provider, ThreadLevel::Single, &[]);
        let peer = a.connect(b.address(), 1).unwrap();
        let mut window = vec![0u64; 1];
        let region = register(&b, &mut window, Access::all());
        test(&a, &b, peer, &region.handle());
        let stats = a.stats();
        assert_eq!(
            stats.posted,
            stats.completed + stats.failed,
            "{provider}: {stats:?}"
        );
        drop(region);
        a.close().unwrap();
        b.close().unwrap();
    }
}

/// Between fetches that are outstanding, and before any other operation.
#[test]
fn unreported_updates_keep_their_order() {
    with_pairs(|a, b, peer, h| {
        let mut olds = vec![u64::MAX; 300];
        attended(b, || {
            for old in &mut olds {
                assert!(add(a, peer, h, 1000));
                fetch_add(a, peer, h, old);
            }
            assert_eq!(a.flush(None), Status::SUCCESS);
        });
        for (old, i) in olds.iter().zip(0..) {
            assert_eq!(*old, 1000 * (i + 1) + i);
        }
    });
}

/// The origin makes no call after the update and its flush, which does not wait for a target that makes no progress.
#[test]
fn arrive_without_further_calls() {
    with_pairs(|a, b, peer, h| {
        let mut old = 0;
        attended(b, || {
            fetch_add(a, peer, h, &mut old);
            assert_eq!(a.flush(None), Status::SUCCESS);
        });
        assert!(add(a, peer, h, 41));
        assert_eq!(a.flush(None), Status::SUCCESS, "the target is idle");
        let word = ptr::with_exposed_provenance::<u64>(h.base() as usize);
        insist(b, || {
            b.progress();
            // SAFETY: the window is live, and the target writes it in this thread.
            match unsafe { word.read_volatile() } {
                42 => Status::SUCCESS,
                _ => Status::TEMP_OUT_OF_RESOURCE,
            }
        });
    });
}

#[test]
fn refusals_are_ignored_and_bad_arguments_are_not_sent() {
    with_pairs(|a, b, peer, h| {
        let mut gone = vec![0u64; 1];
        let closed = register(b, &mut gone, Access::all());
        let stale = closed.handle();
        drop(closed);
        // SAFETY: the endpoint is connected.
        let end = unsafe { peer.as_ref() };
        for at in [h.base() + 1, h.base() + 8, u64::MAX] {
            assert!(a.add_unreported(end, h, at, 1).is_none());
        }
        assert!(a.add_unreported(end, &Handle::vacant(), 0, 1).is_none());
        let mut old = 0;
        attended(b, || {
            for _ in 0..50 {
                fetch_add(a, peer, h, &mut old);
                assert!(add(a, peer, &stale, 1));
            }
            assert_eq!(a.flush(None), Status::SUCCESS, "nobody is told");
        });
        assert_eq!((old, gone[0]), (49, 0));
    });
}
