//! The peers that get a heartbeat, and the peers that have not answered
//! (`carrier::message::heartbeat`).

use std::collections::HashSet;
use std::ptr::NonNull;

use crate::peer::endpoint::Endpoint;

/// Maximum peers that get a heartbeat in one round. The next round begins with the peers after these
/// peers.
const MOST: usize = 8;

/// Milliseconds of waiting before the first round, and between two rounds. A third of the peer timeout if this is less.
const PAUSE: u64 = 2000;

/// The heartbeats of a transport. Times are those of the detector's clock.
#[derive(Debug)]
pub(crate) struct Heartbeats {
    pause: u64,
    activity: u64,
    /// The time of the last post, completion or round of heartbeats.
    since: u64,
    /// The last process that got a heartbeat.
    last: u64,
    /// Processes that got a heartbeat and have not answered.
    pub(crate) asked: HashSet<u64>,
    /// Processes that left. These processes get no heartbeats unless they answer again.
    pub(crate) left: HashSet<u64>,
}

impl Heartbeats {
    /// `limit` is the peer timeout, or 0 without one.
    pub(super) fn new(limit: u64) -> Heartbeats {
        Heartbeats {
            pause: if limit == 0 {
                PAUSE
            } else {
                PAUSE.min(limit / 3)
            },
            activity: 0,
            since: 0,
            last: 0,
            asked: HashSet::new(),
            left: HashSet::new(),
        }
    }

    /// Whether a heartbeat to the peer has no answer yet.
    pub(super) fn awaits(&self, peer: &Endpoint) -> bool {
        !self.asked.is_empty() && self.asked.contains(&peer.proc)
    }

    /// Records the number of operations that were posted or completed so far.
    pub(super) fn activity(&mut self, now: u64, activity: u64) {
        if std::mem::replace(&mut self.activity, activity) != activity {
            self.since = now;
        }
    }

    /// Whether a round of heartbeats is due. If a round is due, the next round is due after another
    /// pause.
    pub(super) fn is_due(&mut self, now: u64) -> bool {
        let due = now - self.since >= self.pause;
        if due {
            self.since = now;
        }
        due
    }

    /// The peers that get a heartbeat in this round.
    pub(crate) fn choose(
        &mut self,
        mut peers: Vec<(u64, NonNull<Endpoint>)>,
    ) -> Vec<NonNull<Endpoint>> {
        peers.retain(|(proc, _)| !self.left.contains(proc));
        peers.sort_unstable();
        let behind = peers.partition_point(|(proc, _)| *proc <= self.last);
        peers.rotate_left(behind);
        peers.truncate(MOST);
        if let Some((proc, _)) = peers.last() {
            self.last = *proc;
        }
        peers.into_iter().map(|(_, endpoint)| endpoint).collect()
    }

    /// Removes a process.
    pub(crate) fn remove(&mut self, proc: u64) {
        self.asked.remove(&proc);
        self.left.remove(&proc);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::route::{Facts, Route};

    #[test]
    fn rounds_are_due_while_nothing_happens() {
        let mut heartbeats = Heartbeats::new(3000);
        heartbeats.activity(900, 7);
        heartbeats.activity(1000, 7);
        assert!(!heartbeats.is_due(1899));
        assert!(heartbeats.is_due(1900));
        assert!(!heartbeats.is_due(2899), "the next round");
        heartbeats.activity(2899, 8);
        assert!(!heartbeats.is_due(3898));
        assert!(heartbeats.is_due(3899));
        assert_eq!(Heartbeats::new(0).pause, PAUSE);
    }

    #[test]
    fn all_peers_are_asked_in_turn() {
        let peers: Vec<Endpoint> = (0..20)
            .map(|proc| Endpoint::new(0, proc, Route::decide(Facts::default())))
            .collect();
        let mut heartbeats = Heartbeats::new(0);
        heartbeats.left.insert(3);
        let mut asked = Vec::new();
        for _ in 0..5 {
            let all = peers.iter().rev();
            let all = all.map(|peer| (peer.proc, NonNull::from(peer)));
            let round = heartbeats.choose(all.collect());
            assert_eq!(round.len(), MOST);
            // SAFETY: the peers are live.
            asked.extend(round.iter().map(|peer| unsafe { peer.as_ref() }.proc));
        }
        let expected = (1..20).chain(0..20).chain(0..20).filter(|proc| *proc != 3);
        assert_eq!(asked, expected.take(5 * MOST).collect::<Vec<_>>());
    }
}
