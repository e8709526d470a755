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

const PROVIDERS: [&str; 2] = ["tcp;ofi_rxm", "net"];

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

#[test]
fn unreported_updates_keep_their_order() {
    const MANY: u64 = 300;
    for provider in PROVIDERS {
        let a = open(provider, ThreadLevel::Single, &[]);
        let b = open(provider, ThreadLevel::Single, &[]);
        let peer = a.connect(b.address(), 1).unwrap();
        let mut window = vec![0u64; 1];
        let region = register(&b, &mut window, Access::all());
        let h = region.handle();
        let mut olds = vec![u64::MAX; MANY as usize];
        attended(&b, || {
            // Between fetches that are outstanding, and before any other operation.
            for (i, old) in olds.iter_mut().enumerate() {
                assert!(add(&a, peer, &h, 1000), "{provider}, {i}");
                fetch_add(&a, peer, &h, old);
            }
            assert_eq!(a.flush(None), Status::SUCCESS);
        });
        for (old, i) in olds.iter().zip(0..) {
            assert_eq!(*old, 1000 * (i + 1) + i, "{provider}");
        }
        let stats = a.stats();
        assert_eq!(stats.posted, stats.completed + stats.failed, "{stats:?}");
        drop(region);
        a.close().unwrap();
        b.close().unwrap();
    }
}

/// The origin makes no call after the update; and a flush does not wait for a target that makes no progress.
#[test]
fn arrive_without_further_calls() {
    for provider in PROVIDERS {
        let a = open(provider, ThreadLevel::Single, &[]);
        let b = open(provider, ThreadLevel::Single, &[]);
        let peer = a.connect(b.address(), 1).unwrap();
        let mut window = vec![0u64; 1];
        let region = register(&b, &mut window, Access::all());
        let h = region.handle();
        let mut old = 0;
        attended(&b, || {
            fetch_add(&a, peer, &h, &mut old);
            assert_eq!(a.flush(None), Status::SUCCESS);
        });
        assert!(add(&a, peer, &h, 41));
        assert_eq!(a.flush(None), Status::SUCCESS, "the target is idle");
        insist(&b, || {
            b.progress();
            // SAFETY: the window is live; the target writes it in this thread.
            match unsafe { window.as_ptr().read_volatile() } {
                42 => Status::SUCCESS,
                _ => Status::TEMP_OUT_OF_RESOURCE,
            }
        });
        drop(region);
        a.close().unwrap();
        b.close().unwrap();
    }
}

#[test]
fn refusals_are_ignored_and_bad_arguments_are_not_sent() {
    for provider in PROVIDERS {
        let a = open(provider, ThreadLevel::Single, &[]);
        let b = open(provider, ThreadLevel::Single, &[]);
        let peer = a.connect(b.address(), 1).unwrap();
        let (mut window, mut gone) = (vec![0u64; 1], vec![0u64; 1]);
        let region = register(&b, &mut window, Access::all());
        let closed = register(&b, &mut gone, Access::all());
        let (h, stale) = (region.handle(), closed.handle());
        drop(closed);
        // SAFETY: the endpoint is connected.
        let end = unsafe { peer.as_ref() };
        for at in [h.base() + 1, h.base() + 8, u64::MAX] {
            assert!(a.add_unreported(end, &h, at, 1).is_none());
        }
        assert!(a.add_unreported(end, &Handle::vacant(), 0, 1).is_none());
        let mut old = 0;
        attended(&b, || {
            for i in 0..50 {
                fetch_add(&a, peer, &h, &mut old);
                assert!(add(&a, peer, &stale, 1), "{provider}, {i}");
            }
            assert_eq!(a.flush(None), Status::SUCCESS, "nobody is told");
        });
        assert_eq!((old, gone[0]), (49, 0), "{provider}");
        let stats = a.stats();
        assert_eq!(stats.posted, stats.completed + stats.failed, "{stats:?}");
        drop(region);
        a.close().unwrap();
        b.close().unwrap();
    }
}
