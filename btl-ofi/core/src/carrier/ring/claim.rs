//! Claiming a ring of a peer, or settling that it has none.

use crate::core::state::Core;
use crate::detector::Cause;
use crate::peer::endpoint::Endpoint;
use crate::peer::liveness::{self, ProcessId};
use crate::peer::route::Atomics;
use crate::sm::requester::Requester;
use crate::sm::segment::Place;
use plugin_api::Status;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

impl Core {
    /// Claims a ring of the peer if the route of its atomics is not fixed yet. Without a ring, the peer's
    /// atomics take the route to other nodes.
    #[cold]
    #[inline(never)]
    pub(crate) fn claim_ring(&self, endpoint: NonNull<Endpoint>) -> Result<(), Status> {
        // SAFETY: the caller of the operation guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let (probe, held) = {
            let peers = self.lock_peers();
            (peers.probe(peer), peers.segment(peer))
        };
        // If this process already holds a descriptor of the segment, uses this descriptor.
        let (pid, descriptor) = match held {
            Some(descriptor) => (self.node.own.pid, descriptor),
            None => (peer.pid(), peer.segment()),
        };
        let place = Place {
            pid,
            descriptor,
            nonce: peer.nonce(),
        };
        let claimed = place.claim();
        let mut state = self.contexts[0].state.lock();
        if peer.atomics() != Atomics::Unclaimed {
            // Another thread fixed the route first.
            if let Ok(claim) = claimed {
                let (next, spent) = (claim.position, claim.spent);
                claim.give_back(next, spent);
            }
            return Ok(());
        }
        match (claimed, &mut state.channel) {
            (Ok(claim), Some(channel)) => {
                match channel.add(Box::new(Requester::new(
                    claim,
                    endpoint,
                    probe,
                    self.quick.counters,
                ))) {
                    Ok(ring) => {
                        let ring = ring.as_ptr().expose_provenance() as u64;
                        peer.settle_atomics(Atomics::Ring, ring);
                        return Ok(());
                    }
                    Err(requester) => {
                        requester.give_back();
                        return Err(Status::OUT_OF_RESOURCE);
                    }
                }
            }
            (Err(e), _) => {
                let gone = peer.process().map(ProcessId::state) == Some(liveness::State::Gone);
                let lost = if gone {
                    Some((Status::UNREACH, "its process no longer runs"))
                } else if self.failures.broken.load(Ordering::Relaxed) {
                    Some((
                        Status::FATAL,
                        "it is reached through a provider that can no longer be used",
                    ))
                } else if self.policy.memory_only {
                    tracing::warn!("no ring of process {} can be claimed: {e}", peer.proc);
                    let why = "it is reached by memory only, and no ring of it can be claimed";
                    Some((Status::UNREACH, why))
                } else {
                    None
                };
                if let Some((status, why)) = lost {
                    drop(state);
                    self.fail_peer(endpoint, Cause::Gone, status, why);
                    return Err(status);
                }
                tracing::info!("atomics to process {} use no ring: {e}", peer.proc);
            }
            (_, None) => {}
        }
        self.node.uses_fabric.store(true, Ordering::Relaxed);
        peer.settle_atomics(Atomics::remote(self.policy.messages), 0);
        Ok(())
    }
}
