//! Handles a CMA refusal: fails a peer that is dead, or sends a live peer's transfers by another
//! path.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use plugin_api::Status;

use crate::base::cma::Refused;
use crate::detector::Cause;
use crate::engine::transport::Transport;
use crate::peer::endpoint::Endpoint;
use crate::peer::liveness::{Standing, standing};
use crate::peer::reach::reason;
use crate::peer::route::{Atomics, Transfers};

impl Transport {
    /// Handles a CMA refusal for a peer. Returns the operation's status, or `None` if the caller must try
    /// another path.
    #[cold]
    #[inline(never)]
    pub(crate) fn examine(&self, endpoint: NonNull<Endpoint>, refused: Refused) -> Option<Status> {
        // SAFETY: endpoints live until the transport closes.
        let peer = unsafe { endpoint.as_ref() };
        if let Some(status) = peer.failure() {
            return Some(status);
        }
        let Some(process) = peer.process() else {
            return Some(refused.status());
        };
        let probe = self.lock_peers().probe(peer);
        let standing = standing(process, probe);
        if let Some(why) = standing.end(process) {
            self.fail_peer(endpoint, Cause::Gone, Status::UNREACH, &why);
            return Some(Status::UNREACH);
        }
        let lasting = match standing {
            Standing::Closed(_, refused) => refused,
            _ if refused.is_lasting() => refused,
            _ => return Some(refused.status()),
        };
        self.stop_cma(endpoint, lasting);
        match peer.transfers() {
            // The peer still uses CMA, because there was no memory to set up another path.
            Transfers::Kernel | Transfers::Doubted => {
                Some(peer.failure().unwrap_or(Status::OUT_OF_RESOURCE))
            }
            _ => None,
        }
    }

    /// Checks a peer before an operation to it, if the peer was found dead while it had no outstanding
    /// operations.
    #[cold]
    #[inline(never)]
    pub(crate) fn examine_doubted(&self, endpoint: NonNull<Endpoint>) -> Option<Status> {
        // SAFETY: endpoints live until the transport closes.
        let peer = unsafe { endpoint.as_ref() };
        // EFAULT is not lasting, so `examine` returns its status only if the peer lives and CMA to the peer is
        // not forbidden.
        let status = self.examine(endpoint, Refused(libc::EFAULT))?;
        if peer.failure().is_none() && status == Refused(libc::EFAULT).status() {
            peer.set_transfers(Transfers::Kernel);
            return None;
        }
        Some(status)
    }

    /// Stops CMA to and from a living peer.
    #[cold]
    #[inline(never)]
    pub(crate) fn stop_cma(&self, endpoint: NonNull<Endpoint>, refused: Refused) {
        // SAFETY: endpoints live until the transport closes.
        let peer = unsafe { endpoint.as_ref() };
        // The code below handles a failed peer and a lack of memory.
        if peer.atomics() == Atomics::Unclaimed && self.claim_ring(endpoint).is_err() {
            return;
        }
        let state = self.contexts[0].state.lock();
        if !matches!(peer.transfers(), Transfers::Kernel | Transfers::Doubted) {
            return;
        }
        let (copies, how) = match peer.atomics() {
            Atomics::Ring => (Transfers::Ring, "the target executes them through its ring"),
            Atomics::Own => (Transfers::Copy, "this process copies them"),
            Atomics::Fabric | Atomics::Unclaimed | Atomics::Message => {
                self.node.uses_fabric.store(true, Ordering::Relaxed);
                let remote = Transfers::remote(self.policy.messages);
                (remote, "they go as to another node")
            }
        };
        peer.set_transfers(copies);
        drop(state);
        tracing::warn!(
            "puts and gets to process {} no longer use cross-memory attach, {how}: {}",
            peer.proc,
            reason(Err(refused))
        );
    }
}
