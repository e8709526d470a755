//! Heartbeats: while this process waits, it asks some peers for an answer, so that the silence of a peer is noticed to which no
//! operation is outstanding: a barrier of the host, or a notification that does not come. The answer is made by the
//! peer's progress. What follows from a missing one is decided as for operations (`detector::silence`, `engine::liveness`).
//!
//! A process waits while its polls find nothing and it posts nothing. Peers are asked over messages, and only those that
//! were heard over messages before: a heartbeat makes no connection that the program did not want.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use crate::core::peers::Peers;
use crate::core::state::Core;
use crate::peer::endpoint::Endpoint;
use crate::peer::route::{Atomics, Transfers};

/// Milliseconds of waiting after which peers are asked, and between two rounds; a third of the peer timeout if that is less.
const PAUSE: u64 = 2000;

impl Core {
    /// Notes which heartbeats are not answered, before the peers are checked.
    pub(crate) fn note_heartbeats(&self) {
        if !self.policy.posts_messages() {
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
        if !self.policy.posts_messages() {
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

    /// Asks peers that have not answered for receipts, so that a broken connection and what was lost with it is noticed.
    #[cold]
    pub(crate) fn knock(&self) {
        let context = &self.contexts[0];
        let mut state = context.state.lock();
        if let Some(messages) = &mut state.messages {
            // Within a node nothing is lost with a connection.
            messages.send_alive(!self.policy.one_node);
            if messages.has_failures() {
                self.tell_failures(context, state);
            }
        }
    }
}

/// Whether messages carry the operations to a peer. The processes of others on this node are looked for.
fn is_carried(peer: &Endpoint) -> bool {
    peer.process().is_none()
        || peer.transfers() == Transfers::Message
        || peer.atomics() == Atomics::Message
}
