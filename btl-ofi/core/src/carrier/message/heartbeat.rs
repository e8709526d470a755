//! Heartbeats: while this process waits, it asks some peers for an answer. This process thereby detects the silence of a
//! peer without outstanding operations, for example in a barrier of the host, or while it waits for a notification. The
//! peer's progress sends the answer. The failure detector (`detector`) decides when peers are asked, and judges a missing
//! answer.
//!
//! A process waits while its polls find nothing and it posts nothing. Peers are asked over messages, and only those that
//! were heard over messages before: a heartbeat makes no connection that the program does not use.

use std::ptr::NonNull;

use crate::core::state::Core;
use crate::peer::endpoint::Endpoint;
use crate::peer::route::{Atomics, Transfers};

impl Core {
    /// Tells the failure detector which heartbeats have no answer yet.
    pub(crate) fn note_heartbeats(&self) {
        let state = self.contexts[0].state.lock();
        let asked = state.messages.iter().flat_map(|m| m.origin.asked());
        // SAFETY: the line of a peer is removed before its endpoint is, under this lock.
        let asked = asked.map(|peer| unsafe { peer.as_ref() }.proc).collect();
        self.detector.lock().heartbeats.asked = asked;
    }

    /// Sends heartbeats to some peers, because this process waits. The caller has begun a report, which
    /// keeps the endpoints.
    #[cold]
    pub(crate) fn beat(&self) {
        let context = &self.contexts[0];
        let heard = context.state.lock().messages.as_ref().map(|m| m.heard());
        let Some(heard) = heard else {
            return;
        };
        let chosen = {
            let peers = self.lock_peers();
            let heartbeats = &mut self.detector.lock().heartbeats;
            if !heartbeats.left.is_empty() {
                // The line to a process that left was removed, so an answer of that process came
                // later on a new line.
                for peer in peers.known.iter().filter(|peer| heard.answered(peer)) {
                    heartbeats.left.remove(&peer.proc);
                }
            }
            let idle = peers.known.iter().filter(|peer| {
                is_carried(peer) && peer.failure().is_none() && peer.is_idle() && heard.has(peer)
            });
            heartbeats.choose(idle.map(|peer| (peer.proc, NonNull::from(peer))).collect())
        };
        let mut state = context.state.lock();
        let Some(messages) = &mut state.messages else {
            return;
        };
        for endpoint in chosen {
            // SAFETY: the caller's report keeps the endpoint. A peer that is connected under this lock is released under it later,
            // which removes its line.
            unsafe {
                if endpoint.as_ref().is_connected() {
                    messages.ask(endpoint);
                }
            }
        }
        if messages.origin.has_failures() {
            self.tell_failures(context, state);
        }
    }

    /// Asks peers that have not answered for receipts, so that this process notices a broken connection and lost
    /// messages.
    #[cold]
    pub(crate) fn ask_for_receipts(&self) {
        let context = &self.contexts[0];
        let mut state = context.state.lock();
        if let Some(messages) = &mut state.messages {
            // Within a node, no message is lost with a connection.
            messages.send_alive(!self.policy.one_node);
            if messages.origin.has_failures() {
                self.tell_failures(context, state);
            }
        }
    }
}

/// Whether messages carry the operations to a peer. For other local peers, the liveness check finds a
/// dead process.
fn is_carried(peer: &Endpoint) -> bool {
    peer.process().is_none()
        || peer.transfers() == Transfers::Message
        || peer.atomics() == Atomics::Message
}
