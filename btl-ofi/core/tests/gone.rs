//! A peer that is killed with outstanding operations: each operation is reported once, flushes end, and other peers are not
//! affected.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use common::pair::WORDS;
use common::prelude::*;

fn survives(provider: &str) {
    let t = open(provider, ThreadLevel::Single, &[]);
    let reports = Reports::of(&t);
    let mut target = Target::start(&t, provider, false);
    let there = target.there();
    let mut word = [0u64];
    let region = register(&t, &mut word, Access::all());
    let mine = There::of(&t, 1, &t, &region);
    let mut old = [0u64; 20];
    for there in [there, mine] {
        there.insist(|there| there.fetch_add(0, &mut old[0], None));
        assert_eq!(t.flush(None), Status::SUCCESS);
    }

    // The target is stopped first, so that operations posted now stay outstanding, then killed.
    signal(target.child.id(), libc::SIGSTOP);
    let seen = Seen::default();
    let mut posted = 0;
    for old in &mut old {
        match there.fetch_add(0, old, seen.completion()) {
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
    let refused = there.fetch_add(0, &mut old[0], seen.completion());
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

    // Operations to the other peer complete, and flushes of all peers no longer wait for the dead one.
    for _ in 0..10 {
        mine.insist(|mine| mine.fetch_add(0, &mut old[0], None));
        t.flush(None);
    }
    assert_eq!(t.flush(None), Status::SUCCESS, "{provider}");
    let counted = seen.all();
    assert_eq!(
        counted, posted,
        "{provider}: each operation is reported once"
    );
    region.close().unwrap();
    assert_eq!(word, [11], "{provider}");
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
        let there = There::new(&t, t.connect(&elsewhere, 1).unwrap(), target.handle);
        target.kill();
        let (large, deadline) = (vec![0u64; WORDS], Patience::new());
        loop {
            let status = there.put(0, &large, None);
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
