//! Peers to which the provider does not connect: whether their processes are gone, which some providers do not tell.

use std::collections::HashSet;
use std::ptr::NonNull;

use crate::core::state::Core;
use crate::peer::endpoint::Endpoint;
use crate::peer::trial::{Listener, Trial, is_refusal};

impl Core {
    /// Peers that the provider takes no message for, or no operation of the suspect, and whose processes refuse connections.
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
            let stuck = state.messages.iter().flat_map(|m| m.stuck());
            // SAFETY: the line of a peer is removed before its endpoint is, under this lock.
            stuck.map(|peer| unsafe { peer.as_ref() }.proc).collect()
        };
        let mut peers = self.lock_peers();
        let peers = &mut *peers;
        let mut refusing = Vec::new();
        let trials = &mut peers.watches.trials;
        if let Some(suspect) = suspect {
            // SAFETY: a report that the caller began keeps the endpoint.
            stuck.insert(unsafe { suspect.as_ref() }.proc);
        }
        trials.retain(|proc, _| stuck.contains(proc));
        for proc in stuck {
            let Some(endpoint) = peers.known.find(proc) else {
                continue;
            };
            // SAFETY: a connected peer is live, and the lock keeps it connected.
            let peer = unsafe { endpoint.as_ref() };
            if peer.failure().is_some() {
                continue;
            }
            let gone = match trials.get(&proc).map(Trial::listener) {
                Some(Listener::Gone) => true,
                Some(Listener::Unknown) => continue,
                Some(Listener::Ended) | None => match self.begin_trial(peer) {
                    Ok(trial) => {
                        trials.extend(trial.map(|trial| (proc, trial)));
                        false
                    }
                    Err(error) => is_refusal(&error),
                },
            };
            if gone {
                trials.remove(&proc);
                refusing.push(endpoint);
            }
        }
        refusing
    }

    fn begin_trial(&self, peer: &Endpoint) -> Result<Option<Trial>, crate::base::error::CallError> {
        Trial::begin(&self.address_of(peer)?)
    }
}
