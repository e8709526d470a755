//! Stopped peers that are released, and living peers that a timeout does not affect.

use super::*;

/// Stopped peers are released one after the other: the transport waits for the first (5 s of polling), but not
/// for the others, in the flush, or in closing. The test measures processor time, which other processes cannot
/// lengthen.
#[test]
fn releasing_stopped_peers_waits_once() {
    let t = open("sockets", ThreadLevel::Single, &[]);
    let targets = [1, 2, 3].map(|proc| Target::start_as(proc, &t, "sockets", false));
    let seen = Seen::default();
    let mut out = vec![[0u64; 2]; targets.len()];
    for (target, out) in targets.iter().zip(&mut out) {
        acquaint(target, out);
        signal(target.child.id(), libc::SIGSTOP);
    }
    for (target, out) in targets.iter().zip(&mut out) {
        assert_eq!(fetch(target, out, &seen), 2);
    }
    for (number, target) in targets.iter().enumerate() {
        let before = worked();
        assert_eq!(target.there().release(), Status::TIMEOUT);
        let spent = worked() - before;
        assert!(number == 0 || spent < SLACK, "release {number}: {spent:?}");
    }
    let before = worked();
    assert_eq!(t.flush(None), Status::SUCCESS);
    t.flush_for_close();
    let spent = worked() - before;
    assert!(spent < SLACK, "flush and close: {spent:?}");
    assert_eq!(seen.all(), 0);
    drop(targets);
    t.close().unwrap();
}

/// A flush of all peers runs out of time: the transport reports this, and does not wait again for peers
/// that are released afterwards.
#[test]
fn releasing_after_a_flush_in_vain_waits_no_more() {
    let t = open("sockets", ThreadLevel::Single, &[]);
    let target = Target::start(&t, "sockets", false);
    let (seen, mut out) = (Seen::default(), [0u64; 2]);
    acquaint(&target, &mut out);
    signal(target.child.id(), libc::SIGSTOP);
    assert_eq!(fetch(&target, &mut out, &seen), 2);
    t.flush_for_close();
    let before = worked();
    assert_eq!(target.there().release(), Status::TIMEOUT);
    let spent = worked() - before;
    assert!(spent < SLACK, "{spent:?}");
    assert_eq!(seen.all(), 0);
    drop(target);
    t.close().unwrap();
}

#[test]
fn a_limit_lets_the_living_be() {
    // Traffic continues for several times the timeout, and no peer is given up.
    let limit = Value::Unsigned(LIMIT / 4);
    let t = open(
        "sockets",
        ThreadLevel::Single,
        &[("btl_ofi_peer_timeout", limit)],
    );
    let target = Target::start(&t, "sockets", false);
    let mut out = vec![0u64; WORDS];
    let until = Instant::now() + Duration::from_millis(LIMIT);
    while Instant::now() < until {
        let seen = Seen::default();
        let h = target.handle;
        insist(&t, || {
            t.get(target.peer, out.as_mut_ptr().cast(), h.base(), &h, 8, None)
        });
        fetch(&target, &mut out, &seen);
        assert_eq!(t.flush(None), Status::SUCCESS);
        // The target stops for longer than the timeout, with and without outstanding operations.
        fetch(&target, &mut out, &seen);
        std::thread::sleep(Duration::from_millis(LIMIT / 2));
        assert_eq!(t.flush(None), Status::SUCCESS);
    }
    target.end();
    t.close().unwrap();
}
