//! Which peers are asked for an answer, and which have not answered (`carrier::message::heartbeat`).

use std::collections::HashSet;
use std::ptr::NonNull;

use crate::peer::endpoint::Endpoint;

/// Peers that are asked in one round. The next round begins with the peers behind them.
const MOST: usize = 8;

/// The heartbeats of a transport.
#[derive(Debug, Default)]
pub(crate) struct Heartbeats {
    /// Operations that were posted or completed when the peers were last checked.
    activity: u64,
    /// Milliseconds of waiting since the last round.
    waited: u64,
    /// The last process that was asked.
    last: u64,
    /// Processes that were asked and have not answered.
    asked: HashSet<u64>,
    /// Processes that left, and are not asked any more unless they answer again.
    pub(crate) left: HashSet<u64>,
}

impl Heartbeats {
    /// Whether a heartbeat to the peer is not answered.
    pub(crate) fn awaits(&self, peer: &Endpoint) -> bool {
        !self.asked.is_empty() && self.asked.contains(&peer.proc)
    }

    /// Notes which processes have not answered.
    pub(crate) fn note(&mut self, asked: HashSet<u64>) {
        self.asked = asked;
    }

    /// Notes `passed` milliseconds, at whose end so many operations were posted or completed. Returns whether a round is due.
    pub(crate) fn is_due(&mut self, passed: u64, activity: u64, pause: u64) -> bool {
        if activity != self.activity {
            (self.activity, self.waited) = (activity, 0);
            return false;
        }
        self.waited += passed;
        let due = self.waited >= pause;
        if due {
            self.waited = 0;
        }
        due
    }

    /// The peers to ask in this round.
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
        let mut heartbeats = Heartbeats::default();
        let mut due = |passed, activity| heartbeats.is_due(passed, activity, 1000);
        assert!(!due(900, 7), "operations were posted since the beginning");
        assert!(!due(900, 7));
        assert!(due(100, 7));
        assert!(!due(900, 7), "the next round");
        assert!(!due(900, 8));
        assert!(!due(900, 8));
        assert!(due(900, 8));
    }

    #[test]
    fn all_peers_are_asked_in_turn() {
        let peers: Vec<Endpoint> = (0..20)
            .map(|proc| Endpoint::new(0, proc, Route::decide(Facts::default())))
            .collect();
        let mut heartbeats = Heartbeats::default();
        heartbeats.left.insert(3);
        let mut asked = Vec::new();
        for _ in 0..5 {
            let all = peers.iter().rev();
            let all = all.map(|peer| (peer.proc, NonNull::from(peer)));
            let round = heartbeats.choose(all.collect());
            assert_eq!(round.len(), MOST);
            // SAFETY: the peers live.
            asked.extend(round.iter().map(|peer| unsafe { peer.as_ref() }.proc));
        }
        let expected = (1..20).chain(0..20).chain(0..20).filter(|proc| *proc != 3);
        assert_eq!(asked, expected.take(5 * MOST).collect::<Vec<_>>());
    }
}
