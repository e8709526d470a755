//! Tests of the list of peers with one thread; `tests/pending_model.rs` runs the model checker.

use super::busy::*;
use super::pending::Pending;

#[test]
fn a_peer_is_listed_once_and_stays_while_something_is_under_way() {
    let busy = BusyPeers::default();
    let peers: Vec<(Listed, Pending)> = (0..3)
        .map(|_| (Listed::default(), Pending::new(true)))
        .collect();
    let unsettled = || {
        let ranks = busy.unsettled(|rank| {
            let (listed, pending) = peers.get(rank)?;
            Some((listed, pending.unsettled() == 0))
        });
        let found = ranks.clone();
        busy.give_back(ranks);
        found
    };
    let issue = |rank: usize| {
        let (listed, pending) = &peers[rank];
        let cell = pending.begin();
        if !listed.is_set() {
            busy.list(rank, listed);
        }
        cell
    };
    assert!(unsettled().is_empty());
    let cells = [issue(2), issue(0), issue(2)];
    // As another thread that was late.
    busy.list(2, &peers[2].0);
    assert_eq!(unsettled(), [2, 0]);
    cells[0].finish(0);
    cells[1].finish(0);
    assert_eq!(unsettled(), [2]);
    assert!(!peers[0].0.is_set() && peers[2].0.is_set());
    cells[2].finish(-1);
    // Until a call takes the failure.
    assert_eq!(unsettled(), [2]);
    assert!(peers[2].1.take_failure().is_some());
    assert!(unsettled().is_empty());
    issue(0).finish(0);
    assert!(peers[0].0.is_set());
    assert!(unsettled().is_empty());
}
