//! Finds dead processes among the peers to which the provider does not connect. Some providers do not report such a
//! process.

use std::collections::HashSet;
use std::ptr::NonNull;

use crate::base::error::CallError;
use crate::core::state::Core;
use crate::peer::endpoint::Endpoint;
use crate::peer::trial::{Listener, Trial, is_refusal};

impl Core {
    /// Peers whose processes refuse connections. Only peers for which the provider took no message, and the suspect, are
    /// tried.
    #[cold]
    pub(crate) fn refusing_peers(
        &self,
        suspect: Option<NonNull<Endpoint>>,
    ) -> Vec<NonNull<Endpoint>> {
        if !self.policy.hides_refusals {
            return Vec::new();
        }
        let mut stuck: HashSet<u64> = {
            let state = self.contexts[0].state.lock();
            let stuck = state.messages.iter().flat_map(|m| m.origin.stuck());
            // SAFETY: the line of a peer is removed before its endpoint, under this lock; the caller's report keeps the
            // suspect.
            let procs = stuck
                .chain(suspect)
                .map(|peer| unsafe { peer.as_ref() }.proc);
            procs.collect()
        };
        let peers = &mut *self.lock_peers();
        peers.trials.retain(|proc, _| stuck.contains(proc));
        let refuses = |proc| {
            let endpoint = peers.known.find(proc)?;
            // SAFETY: a connected peer is live, and the lock keeps it connected.
            let peer = unsafe { endpoint.as_ref() };
            let gone = match peers.trials.get(&proc).map(Trial::listener) {
                _ if peer.failure().is_some() => false,
                Some(Listener::Gone) => true,
                Some(Listener::Unknown) => false,
                Some(Listener::Ended) | None => match self.begin_trial(peer) {
                    Ok(trial) => {
                        peers.trials.extend(trial.map(|trial| (proc, trial)));
                        false
                    }
                    Err(error) => is_refusal(&error),
                },
            };
            if gone {
                peers.trials.remove(&proc);
            }
            gone.then_some(endpoint)
        };
        stuck.drain().filter_map(refuses).collect()
    }

    fn begin_trial(&self, peer: &Endpoint) -> Result<Option<Trial>, CallError> {
        Trial::begin(&self.address_of(peer)?)
    }
}
