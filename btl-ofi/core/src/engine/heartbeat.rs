//! Heartbeats: while this process waits, it asks some peers for an answer, so that the silence of a peer is noticed to which no
//! operation is outstanding: a barrier of the host, or a notification that does not come. The answer is made by the
//! peer's progress. What follows from a missing one is decided as for operations (`silence`, `liveness`).
//!
//! A process waits while its polls find nothing and it posts nothing. Peers are asked over messages, and only those that
//! were heard over messages before: a heartbeat makes no connection that the program did not want.

use std::collections::HashSet;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use crate::engine::peers::Peers;
use crate::engine::transport::Transport;
use crate::peer::endpoint::Endpoint;
use crate::peer::route::{Atomics, Transfers};

/// Milliseconds of waiting after which peers are asked, and between two rounds; a third of the peer timeout if that is less.
const PAUSE: u64 = 2000;
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
    left: HashSet<u64>,
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
    fn is_due(&mut self, passed: u64, activity: u64, pause: u64) -> bool {
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
    fn choose(&mut self, mut peers: Vec<(u64, NonNull<Endpoint>)>) -> Vec<NonNull<Endpoint>> {
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

    pub(crate) fn forget(&mut self, proc: u64) {
        self.asked.remove(&proc);
        self.left.remove(&proc);
    }
}

impl Transport {
    /// Notes which heartbeats are not answered, before the peers are checked.
    pub(crate) fn note_heartbeats(&self) {
        if !self.policy.uses_messages() {
            return;
        }
        let state = self.contexts[0].state.lock();
        let asked = state.messages.iter().flat_map(|m| m.asked());
        // SAFETY: the line of a peer is removed before its endpoint is, under this lock.
        let asked = asked.map(|peer| unsafe { peer.as_ref() }.proc).collect();
        self.lock_peers().watches.heartbeats.note(asked);
    }

    /// Asks some peers, if this process waits. `passed`: milliseconds since the last call.
    #[cold]
    pub(crate) fn beat(&self, passed: u64) {
        if !self.policy.uses_messages() {
            return;
        }
        let pause = match self.setup.peer_timeout_ms {
            0 => PAUSE,
            limit => PAUSE.min(limit / 3),
        };
        let activity = self.activity();
        let context = &self.contexts[0];
        let mut state = context.state.lock();
        let Some(messages) = &mut state.messages else {
            return;
        };
        // The lock keeps the chosen peers connected.
        let mut peers = self.lock_peers();
        let Peers { known, watches, .. } = &mut *peers;
        if !watches.heartbeats.is_due(passed, activity, pause) {
            return;
        }
        let heard = messages.heard();
        let has_answered = |peer: &&Endpoint| heard.answered(peer);
        if !watches.heartbeats.left.is_empty() {
            // The line to a process that left was removed, so an answer is a newer one.
            for peer in known.iter().filter(has_answered) {
                watches.heartbeats.left.remove(&peer.proc);
            }
        }
        let idle = known.iter().filter(|peer| {
            is_carried(peer) && peer.failure().is_none() && peer.is_idle() && heard.has(peer)
        });
        let idle = idle.map(|peer| (peer.proc, NonNull::from(peer)));
        for endpoint in watches.heartbeats.choose(idle.collect()) {
            // SAFETY: a connected peer is live, and its line is removed before it is.
            unsafe { messages.ask(endpoint) };
        }
        drop(peers);
        if messages.has_failures() {
            self.tell_failures(context, state);
        }
    }

    /// Operations that were posted or completed so far.
    fn activity(&self) -> u64 {
        let each = self.contexts.iter().map(|context| {
            let counts = context.state.lock().counts;
            let direct = context.direct.load(Ordering::Relaxed);
            let outstanding = u64::from(context.count.outstanding());
            // Grows with each post, and with each completion.
            outstanding + 2 * (counts.completed + counts.failed) + direct
        });
        each.sum()
    }

    /// Whether a peer that takes no message any more has left without being missed: nothing but heartbeats is outstanding there,
    /// and the host lets processes leave before others do. Then it is asked no more.
    #[cold]
    pub(crate) fn has_left(&self, endpoint: NonNull<Endpoint>) -> bool {
        if self.detector.watch_idle.load(Ordering::Relaxed) {
            return false;
        }
        let mut state = self.contexts[0].state.lock();
        // SAFETY: endpoints live until the transport closes, or their line is removed.
        let peer = unsafe { endpoint.as_ref() };
        let messages = state.messages.as_mut();
        let mut peers = self.lock_peers();
        let heartbeats = &mut peers.watches.heartbeats;
        // Another call may have found this, and removed the line.
        let is_known = heartbeats.left.contains(&peer.proc);
        let left = peer.is_idle()
            && messages.is_some_and(|messages| {
                messages.remove_idle(endpoint) || is_known && !messages.has_line(endpoint)
            });
        if left {
            heartbeats.forget(peer.proc);
            heartbeats.left.insert(peer.proc);
        }
        left
    }
}

/// Whether messages carry the operations to a peer. The processes of others on this node are looked for.
fn is_carried(peer: &Endpoint) -> bool {
    peer.process().is_none()
        || peer.transfers() == Transfers::Message
        || peer.atomics() == Atomics::Message
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
