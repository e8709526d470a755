use super::*;
use crate::detector::LONG;
use crate::peer::route::{Facts, Route};
use crate::peer::share::Share;

const LIMIT: u64 = 1000;

#[test]
fn idle_peers_of_other_nodes_are_not_kept() {
    let peers: Vec<Endpoint> = (0..100)
        .map(|proc| Endpoint::new(0, proc, Route::decide(Facts::default())))
        .collect();
    let mut watches = Watches::default();
    let busy = peers[7].raise(Share::ONLY, false);
    let mut look = |passed| -> (usize, Vec<bool>) {
        let found = peers.iter();
        let found = found.map(|peer| watches.observe(peer, None, passed, LIMIT).is_some());
        let found = found.collect();
        (watches.peers.len(), found)
    };
    assert_eq!(look(LIMIT), (1, vec![false; 100]), "the first look");
    // The phase of its counts may advance at a look without a completion.
    look(LIMIT);
    let (kept, silent) = look(LIMIT);
    assert_eq!((kept, silent.iter().position(|s| *s)), (1, Some(7)));
    peers[7].pair(Share::ONLY, false).lower(busy, 1, false);
    assert_eq!(look(LIMIT), (0, vec![false; 100]));
    let _later = peers[7].raise(Share::ONLY, false);
    assert_eq!(
        look(LIMIT),
        (1, vec![false; 100]),
        "its silence begins anew"
    );
}

/// Parts of an operation that complete prove that the peer lives, though the operation itself is outstanding, and its later
/// parts count in another phase than it does.
#[test]
fn parts_prove_life() {
    let peer = Endpoint::new(0, 1, Route::decide(Facts::default()));
    let mut watches = Watches::default();
    let whole = peer.raise(Share::ONLY, false);
    let mut look = || watches.observe(&peer, None, LIMIT, LIMIT).is_some();
    assert!(!look());
    // The phase of its counts may advance at a look without a completion.
    look();
    for _ in 0..10 {
        let part = peer.raise(Share::ONLY, false);
        peer.pair(Share::ONLY, false).lower(part, 1, false);
        peer.part_completed();
        assert!(!look());
    }
    assert!(look());
    peer.pair(Share::ONLY, false).lower(whole, 1, false);
}

/// Time in which an operation waits for a copy of this process is not its peer's silence. It does not end a silence either.
#[test]
fn copies_of_this_process_are_no_silence() {
    let peer = Endpoint::new(0, 1, Route::decide(Facts::default()));
    let mut watches = Watches::default();
    let whole = peer.raise(Share::ONLY, false);
    let mut look = |passed| watches.observe(&peer, None, passed, LIMIT).is_some();
    // The phase of its counts may advance at a look without a completion.
    assert!(!look(0) && !look(0));
    assert!(!look(LIMIT - 1));
    for _ in 0..10 {
        peer.waits_for_copy();
        assert!(!look(LIMIT));
    }
    assert!(look(1));
    peer.pair(Share::ONLY, false).lower(whole, 1, false);
}

/// A peer has more time while a long transfer to it is outstanding, and no more once that is complete.
#[test]
fn long_transfers_have_more_time() {
    let peer = Endpoint::new(0, 1, Route::decide(Facts::default()));
    let mut watches = Watches::default();
    let transfer = peer.raise(Share::ONLY, false);
    watches.long.add(&peer, 16 * LONG);
    let more = watches.long.time_of(&peer);
    let silence_of = |watches: &mut Watches| {
        let silent = |_: &u64| watches.observe(&peer, None, 1, LIMIT).is_some();
        (1..10 * LIMIT).find(silent)
    };
    let lasted = silence_of(&mut watches);
    assert!(lasted.is_some_and(|lasted| lasted >= LIMIT + more));
    peer.pair(Share::ONLY, false).lower(transfer, 1, false);
    assert!(watches.observe(&peer, None, 1, LIMIT).is_none());
    let _small = peer.raise(Share::ONLY, false);
    let lasted = silence_of(&mut watches);
    assert!(lasted.is_some_and(|lasted| lasted < LIMIT + 10));
}

/// A local process that is stopped counts as silent without anything outstanding.
#[test]
fn stopped_local_peers_are_kept() {
    let peer = Endpoint::new(0, 1, Route::decide(Facts::default()));
    let mut watches = Watches::default();
    let stopped = Some(State::Stopped);
    assert!(watches.observe(&peer, stopped, 0, LIMIT).is_none());
    assert!(watches.observe(&peer, stopped, LIMIT, LIMIT).is_some());
}

/// A remote peer counts as silent while it answers no heartbeat, though nothing is outstanding at it.
#[test]
fn peers_that_answer_no_heartbeat_are_silent() {
    let peer = Endpoint::new(0, 1, Route::decide(Facts::default()));
    let mut watches = Watches::default();
    watches.heartbeats.note([1].into());
    assert!(watches.observe(&peer, None, 0, LIMIT).is_none());
    assert!(watches.observe(&peer, None, LIMIT - 1, LIMIT).is_none());
    let why = watches.observe(&peer, None, 1, LIMIT);
    assert!(why.is_some_and(|why| why.contains("heartbeat")));
    watches.heartbeats.note([].into());
    assert!(watches.observe(&peer, None, LIMIT, LIMIT).is_none());
    assert!(watches.peers.is_empty());
}
