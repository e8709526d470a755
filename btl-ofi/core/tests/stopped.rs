//! A stopped peer. With a timeout set, the peer fails, each operation to it is reported once, and
//! nothing from it arrives later, even if it continues. Without a timeout, this process waits for the
//! peer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;
#[path = "stopped/releases.rs"]
mod releases;

use std::slice;

use common::prelude::*;

/// The peer timeout, milliseconds.
const LIMIT: u64 = 400;
/// The processor time permitted beyond the timeout, for all other work.
const SLACK: Duration = Duration::from_millis(500);
/// The value of words to which no value was fetched.
const UNTOUCHED: u64 = 0x5555_5555_5555_5555;
const WORDS: usize = 64;

/// Posts fetches to the target into the words of `out`; returns the number of accepted fetches.
fn fetch(target: &Target<'_>, out: &mut [u64], seen: &Seen) -> u32 {
    // The callback is slow, so another thread's flush could return too early.
    let with = seen.slow_completion();
    let there = target.there();
    let mut posted = 0;
    for (i, word) in out.iter_mut().enumerate() {
        let status = match i % 2 {
            0 => there.get(0, slice::from_mut(word), with),
            _ => there.fetch_add(0, word, with),
        };
        match status {
            Status::SUCCESS => posted += 1,
            s => assert!(s.is_again(), "{s}"),
        }
    }
    posted
}

/// Makes first contact, which some providers need both sides for.
fn acquaint(target: &Target<'_>, out: &mut [u64]) {
    let there = target.there();
    there.insist(|there| there.fetch_add(0, &mut out[0], None));
    assert_eq!(there.t.flush(None), Status::SUCCESS);
}

fn given_up(provider: &str) {
    let limit = Value::Unsigned(LIMIT);
    let t = open(
        provider,
        ThreadLevel::Single,
        &[("btl_ofi_peer_timeout", limit)],
    );
    let reports = Reports::of(&t);
    let target = Target::start(&t, provider, false);
    let mut out = vec![0u64; WORDS];
    let seen = Seen::default();
    acquaint(&target, &mut out);
    let before = fetch(&target, &mut out, &seen);
    assert_eq!(t.flush(None), Status::SUCCESS, "{provider}: while it runs");
    assert_eq!(seen.succeeded(), before);

    signal(target.child.id(), libc::SIGSTOP);
    out.fill(UNTOUCHED);
    let seen = Seen::default();
    let posted = fetch(&target, &mut out, &seen);
    assert!(posted > 0, "{provider}");
    let before = worked();
    let flushed = t.flush(None);
    assert!(!flushed.is_ok(), "{provider}: {flushed}");
    let deadline = Patience::new();
    while seen.all() < posted {
        t.progress();
        assert!(deadline.lasts(), "{provider}: one is never reported");
    }
    // The limit covers the timeout, a check of the peers, and closing the endpoints, which may wait
    // for 5 s.
    let spent = worked() - before;
    assert!(
        spent < Duration::from_secs(8),
        "{provider}: {spent:?} of work"
    );
    assert!(seen.failed() > 0, "{provider}");
    let refused = target.there().get(0, &mut out[..1], None);
    assert_eq!(refused, Status::UNREACH, "{provider}: refused from now on");
    let said = reports.all();
    assert!(
        said.iter()
            .any(|r| r.starts_with("0: ") && r.contains("btl_ofi_peer_timeout")),
        "{provider}: {said:?}"
    );

    // The buffers of failed operations belong to the caller again: the peer can no longer change
    // them.
    let kept = out.clone();
    signal(target.child.id(), libc::SIGCONT);
    let until = Instant::now() + Duration::from_millis(300);
    while Instant::now() < until {
        t.progress();
        std::thread::yield_now();
    }
    assert!(
        out == kept,
        "{provider}: a peer that came back wrote to a buffer"
    );
    assert_eq!(seen.all(), posted, "{provider}: each is reported once");
    let status = t.flush(None);
    assert!(
        matches!(status, Status::SUCCESS | Status::FATAL),
        "{provider}: {status}"
    );
    drop(target);
    t.close().unwrap();
}

/// A peer is given up after its timeout, not before, and at most one check interval later (250 ms by
/// default, or a quarter of the timeout). This thread never sleeps, so on a busy machine its processor
/// time is the only reliable measure of time.
fn given_up_in_time(provider: &str) {
    for limit in [300, 1500] {
        let timeout = ("btl_ofi_peer_timeout", Value::Unsigned(limit));
        let t = open(provider, ThreadLevel::Single, &[timeout]);
        let target = Target::start(&t, provider, false);
        let mut out = vec![0u64; WORDS];
        let seen = Seen::default();
        acquaint(&target, &mut out);
        let (struck, before, patience) = (Instant::now(), worked(), Patience::new());
        signal(target.child.id(), libc::SIGSTOP);
        let posted = fetch(&target, &mut out, &seen);
        assert!(posted > 0, "{provider}");
        while seen.failed() == 0 {
            t.progress();
            assert!(patience.lasts(), "{provider}: not given up");
        }
        let (passed, worked) = (struck.elapsed(), worked() - before);
        let limit = Duration::from_millis(limit);
        // The transport counts whole milliseconds.
        let earliest = limit - Duration::from_millis(1);
        assert!(
            passed >= earliest,
            "{provider}, {limit:?}: after {passed:?}"
        );
        let latest = limit + Duration::from_millis(250) + SLACK;
        assert!(
            worked <= latest,
            "{provider}, {limit:?}: {worked:?} of work"
        );
        drop(target);
        t.close().unwrap();
    }
}

#[test]
fn the_time_given_is_kept() {
    for provider in ["shm", "tcp;ofi_rxm"] {
        given_up_in_time(provider);
    }
}

#[test]
fn shm_gives_up() {
    given_up("shm");
}

#[test]
fn tcp_rxm_gives_up() {
    given_up("tcp;ofi_rxm");
}

#[test]
fn sockets_give_up() {
    given_up("sockets");
}

/// The transport waits for a stopped peer if there is no timeout, or if the timeout has not passed.
fn waited_for(provider: &str, limit: u64) {
    let limit = Value::Unsigned(limit);
    let t = open(
        provider,
        ThreadLevel::Multiple,
        &[("btl_ofi_peer_timeout", limit)],
    );
    let target = Target::start(&t, provider, false);
    let mut out = vec![0u64; WORDS];
    let seen = Seen::default();
    fetch(&target, &mut out, &seen);
    assert_eq!(t.flush(None), Status::SUCCESS);
    signal(target.child.id(), libc::SIGSTOP);
    let seen = Seen::default();
    let posted = fetch(&target, &mut out, &seen);
    let pid = target.child.id();
    std::thread::scope(|s| {
        s.spawn(move || {
            std::thread::sleep(Duration::from_millis(LIMIT));
            signal(pid, libc::SIGCONT);
        });
        assert_eq!(t.flush(None), Status::SUCCESS, "{provider}");
    });
    assert_eq!(seen.succeeded(), posted, "{provider}");
    target.end();
    t.close().unwrap();
}

#[test]
fn without_a_limit_a_stopped_peer_is_waited_for() {
    for provider in ["shm", "sockets"] {
        waited_for(provider, 0);
        waited_for(provider, 20 * LIMIT);
    }
}

/// A flush of a dead peer ends although another thread's operations complete all the time.
#[test]
fn a_busy_thread_does_not_hide_a_dead_peer() {
    let t = open("sockets", ThreadLevel::Multiple, &[]);
    let mut target = Target::start(&t, "sockets", false);
    let mut window = [0u64];
    let region = register(&t, &mut window, Access::all());
    let mine = There::of(&t, 1, &t, &region);
    let mut out = vec![0u64; WORDS];
    let seen = Seen::default();
    acquaint(&target, &mut out);
    fetch(&target, &mut out, &seen);
    assert_eq!(t.flush(None), Status::SUCCESS);
    signal(target.child.id(), libc::SIGSTOP);
    let (stop, done) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut word = [0u64];
            while stop.load(Ordering::Relaxed) == 0 {
                mine.insist(|mine| mine.get(0, &mut word, None));
                done.fetch_add(1, Ordering::Relaxed);
            }
            mine.flush();
        });
        let seen = Seen::default();
        // The other thread's operations may leave no room for a while.
        let deadline = Patience::new();
        let mut posted = 0;
        while posted == 0 {
            assert!(deadline.lasts(), "nothing is taken");
            posted = fetch(&target, &mut out, &seen);
        }
        while done.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        target.kill();
        target.there().flush();
        stop.store(1, Ordering::Relaxed);
        assert!(posted > 0 && seen.failed() > 0);
        assert_eq!(seen.all(), posted);
    });
    assert!(done.load(Ordering::Relaxed) > 0);
    region.close().unwrap();
    drop(target);
    t.close().unwrap();
}
