//! A peer that is killed with outstanding operations: each operation is reported once, flushes end, and other peers are not
//! affected.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use std::ffi::c_void;
use std::time::Duration;

use common::Calls as _;
use plugin_api::{Access, BtlAtomicOp, Status, ThreadLevel};

use common::pair::{Target, WORDS};
use common::reports::Reports;
use common::seen::Seen;
use common::{Patience, insist, open, signal, worked};

fn survives(provider: &str) {
    let t = open(provider, ThreadLevel::Single, &[]);
    let reports = Reports::of(&t);
    let mut target = Target::start(&t, provider, false);
    let (peer, h) = (target.peer, target.handle);
    let mine = t.connect(t.address(), 1).unwrap();
    let mut word = 0u64;
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    // SAFETY: the word lives until the region is closed.
    let region = unsafe { t.register((&raw mut word).cast(), 8, access) }.unwrap();
    let add = BtlAtomicOp::Add;
    let mut old = [0u64; 64];
    let out = old.as_mut_ptr().cast::<c_void>();
    for (peer, h) in [(peer, h), (mine, region.handle())] {
        insist(&t, || t.atomic_fop(peer, out, h.base(), &h, add, 1, None));
        assert_eq!(t.flush(None), Status::SUCCESS);
    }

    // The target is stopped first, so that operations posted now stay outstanding, then killed.
    signal(target.child.id(), libc::SIGSTOP);
    let seen = Seen::default();
    let with = seen.completion();
    let mut posted = 0;
    for i in 0..20 {
        // SAFETY: `i` is below 20, so the result lies inside `old`, which lives to the end of the test, as does `seen`.
        let status = unsafe { t.atomic_fop(peer, out.add(8 * i), h.base(), &h, add, 1, with) };
        match status {
            Status::SUCCESS => posted += 1,
            s => assert!(s.is_again(), "{s}"),
        }
    }
    assert!(posted > 0);
    target.kill();

    let before = worked();
    let flushed = t.flush(None);
    assert!(!flushed.is_ok(), "{provider}: {flushed}");
    let deadline = Patience::new();
    while seen.all() < posted {
        t.progress();
        assert!(
            deadline.lasts(),
            "{provider}: an operation is never reported"
        );
    }
    // The flush checks the peers, after intervals of 250 ms without completions.
    let spent = worked() - before;
    assert!(
        spent < Duration::from_secs(4),
        "{provider}: {spent:?} of work"
    );
    assert!(seen.failed() > 0);
    let refused = t.atomic_fop(peer, out, h.base(), &h, add, 1, with);
    assert_eq!(
        refused,
        Status::UNREACH,
        "{provider}: a peer that is gone is refused at once"
    );
    let said = reports.all();
    assert!(
        said.iter().any(|r| r.starts_with("0: ")),
        "{provider}: {said:?}"
    );

    let own = region.handle();
    // Operations to the other peer complete, and flushes of all peers no longer wait for the dead one.
    for _ in 0..10 {
        insist(&t, || {
            t.atomic_fop(mine, out, own.base(), &own, add, 1, None)
        });
        t.flush(None);
    }
    assert_eq!(t.flush(None), Status::SUCCESS, "{provider}");
    assert_eq!(word, 11, "{provider}");
    let counted = seen.all();
    assert_eq!(
        counted, posted,
        "{provider}: each operation is reported once"
    );
    region.close().unwrap();
    drop(target);
    t.close().unwrap();
}

#[test]
fn shm() {
    survives("shm");
}

#[test]
fn tcp_rxm() {
    survives("tcp;ofi_rxm");
}

#[test]
fn sockets() {
    survives("sockets");
}

/// A process of another node died before the first contact, and the host retries one put that is too large for a message.
/// The providers do not report that a connection is refused.
#[test]
fn dead_before_the_first_put() {
    for provider in ["tcp;ofi_rxm", "net"] {
        let t = open(provider, ThreadLevel::Single, &[]);
        let mut target = Target::start(&t, provider, false);
        // The number of the address's node follows 8 bytes (`core/src/peer/address.rs`).
        let mut elsewhere = target.address.clone();
        elsewhere[8..16].iter_mut().for_each(|byte| *byte = !*byte);
        let (peer, h) = (t.connect(&elsewhere, 1).unwrap(), target.handle);
        target.kill();
        let mut large = vec![0u64; WORDS];
        let (local, size) = (large.as_mut_ptr().cast(), WORDS * 8);
        let deadline = Patience::new();
        loop {
            let status = t.put(peer, local, h.base(), &h, size, None);
            if status == Status::UNREACH {
                break;
            }
            assert!(
                status.is_again() || status == Status::SUCCESS,
                "{provider}: {status}"
            );
            assert!(deadline.lasts(), "{provider}: not noticed");
        }
        drop(target);
        t.close().unwrap();
    }
}
