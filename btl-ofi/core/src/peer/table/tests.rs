//! Tests of the table against maps and lists.

use super::*;
use crate::peer::liveness::ProcessId;
use crate::peer::route::{Facts, Route};
use crate::peer::share::Share;

fn remote(proc: u64) -> Placed {
    Placed::Remote(Endpoint::new(
        proc * 2,
        proc,
        Route::decide(Facts::default()),
    ))
}

fn local(proc: u64) -> Placed {
    let process = ProcessId {
        pid: proc as u32 + 1,
        started: 7,
    };
    let route = Route::decide(Facts::default());
    let peer = LocalPeer::new(proc * 2, proc, process, route, (0, 0));
    let reach = proc.is_multiple_of(2).then(|| Reach {
        probe: Probe {
            address: proc + 1,
            value: proc,
        },
        segment: None,
    });
    Placed::Local(peer, reach)
}

fn of(peers: &Endpoints, proc: u64) -> &Endpoint {
    // SAFETY: places stay readable as long as `peers` lives.
    unsafe { peers.find(proc).unwrap().as_ref() }
}

#[test]
fn peers_are_found_by_number_and_keep_their_address() {
    let mut peers = Endpoints::new(1);
    let place = |proc: u64| {
        if proc.is_multiple_of(3) {
            local(proc)
        } else {
            remote(proc)
        }
    };
    let numbers = || (0..1000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8);
    let first: Vec<_> = numbers().map(|n| peers.insert(place(n)).unwrap()).collect();
    assert_eq!(peers.len(), 1000);
    for (proc, address) in numbers().zip(&first) {
        assert_eq!(peers.find(proc), Some(*address));
        let peer = of(&peers, proc);
        assert_eq!((peer.proc, peer.address), (proc, proc * 2));
        let process = proc.is_multiple_of(3).then_some(ProcessId {
            pid: proc as u32 + 1,
            started: 7,
        });
        assert_eq!(peer.process(), process);
    }
    assert_eq!(peers.iter().count(), 1000);
    let here = numbers().filter(|n| n.is_multiple_of(3)).count();
    assert_eq!(peers.iter_local().count(), here);
    assert!(peers.find(u64::MAX).is_none());
}

#[test]
fn a_place_is_used_again_unless_it_may_be_named() {
    for make in [remote, local] {
        let mut peers = Endpoints::new(1);
        let first = peers.insert(make(1)).unwrap();
        peers.remove(1, false);
        assert!(peers.find(1).is_none());
        assert_eq!(peers.insert(make(2)), Some(first));
        peers.remove(2, true);
        assert_ne!(peers.insert(make(3)), Some(first));
        assert_eq!((peers.len(), peers.iter().count()), (1, 1));
        // SAFETY: places stay readable as long as `peers` lives.
        assert_eq!(unsafe { first.as_ref() }.proc, 2);
    }
}

#[test]
fn what_reaches_a_peer_goes_with_it() {
    let mut peers = Endpoints::new(1);
    for proc in 0..10 {
        peers.insert(local(proc)).unwrap();
    }
    let probe = |peers: &Endpoints, proc| peers.probe(proc).map(|probe| probe.value);
    assert_eq!((probe(&peers, 4), probe(&peers, 5)), (Some(4), None));
    peers.remove(4, false);
    assert_eq!(probe(&peers, 4), None);
    // The new peer gets the place of the released one.
    peers.insert(local(11)).unwrap();
    assert_eq!((probe(&peers, 11), probe(&peers, 4)), (None, None));
    peers.insert(remote(4)).unwrap();
    assert_eq!(probe(&peers, 4), None);
}

/// Connects and releases peers in random order, and compares with a map.
#[test]
fn the_index_is_a_map() {
    let mut state = 1u64;
    let mut next = |bound: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        (state >> 33) % bound
    };
    for numbers in [300, 20_000] {
        let mut peers = Endpoints::new(1);
        let mut model = std::collections::BTreeMap::new();
        // Numbers come in order first, as hosts connect, then in random order.
        let in_order = (0..200).map(Some);
        for step in in_order.chain((0..20_000).map(|_| None)) {
            let proc = step.unwrap_or_else(|| next(numbers));
            let make = if next(4) == 0 { local } else { remote };
            if model.remove(&proc).is_some() {
                peers.remove(proc, next(16) == 0);
                assert!(peers.find(proc).is_none(), "{proc}");
            } else {
                model.insert(proc, peers.insert(make(proc)).unwrap());
            }
            assert_eq!(peers.len(), model.len());
            let other = next(numbers);
            assert_eq!(peers.find(other), model.get(&other).copied(), "{other}");
        }
        for (proc, place) in &model {
            assert_eq!(peers.find(*proc), Some(*place));
            assert_eq!(of(&peers, *proc).proc, *proc);
        }
        assert_eq!(peers.iter().count(), model.len());
    }
}

/// Each share of each peer has its own counts, on its own cache lines.
#[test]
fn shares_count_apart() {
    const SHARES: usize = 3;
    let mut peers = Endpoints::new(SHARES);
    let make = |proc: u64| match proc % 2 {
        0 => remote(proc),
        _ => local(proc),
    };
    // The peers of each kind need more than one chunk.
    let number = 2 * CHUNK as u64 + 200;
    for proc in 0..number {
        peers.insert(make(proc)).unwrap();
    }
    let mut pairs = std::collections::BTreeMap::new();
    for proc in 0..number {
        let peer = of(&peers, proc);
        for share in 0..SHARES {
            let pair = peer.pair(Share::of_several(share), true);
            let at = std::ptr::from_ref(pair).addr();
            assert_eq!(pairs.insert(at, (proc, share)), None, "{proc}, {share}");
            assert_eq!(pair.outstanding(), 0, "{proc}, {share}");
            peer.raise(Share::of_several(share), true);
        }
        assert_eq!(peer.total().outstanding(), SHARES as u32, "{proc}");
    }
    // No pair shares a cache line with another share, nor with an endpoint.
    let lines = pairs.iter().map(|(at, (_, share))| (at / 64, *share));
    let lines: std::collections::BTreeMap<_, _> = lines.collect();
    for (at, (proc, share)) in &pairs {
        assert_eq!(lines[&(at / 64)], *share, "{proc}, {share}");
    }
    for peer in peers.iter() {
        let at = std::ptr::from_ref(peer).addr();
        assert!(!lines.contains_key(&(at / 64)), "{}", peer.proc);
    }
    // A reused place begins with no outstanding operations.
    let peer = of(&peers, 7);
    for share in 0..SHARES {
        peer.pair(Share::of_several(share), true).lower(0, 1, true);
    }
    peers.remove(7, false);
    peers.insert(make(number + 1)).unwrap();
    assert!(of(&peers, number + 1).is_idle());
}
