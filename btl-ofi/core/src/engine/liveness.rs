//! Failure detector: finds local peers that died or stopped, and silent peers.
//!
//! A local peer's death is found by its process id, its start time and a word in its memory (`reach`). A peer
//! that is stopped, or that completes nothing for any reason, fails only if the user sets
//! `btl_ofi_peer_timeout`: a debugger also stops peers, and they come back. Only time in which this process
//! polls counts; time in which it is stopped or computes does not count as the peer's silence.
//!
//! A peer lives if an operation to it completes, or a part of one; and one that receives a long transfer has more time ([`long`]).
//! Time in which an operation to it waits for a copy of this process does not count: such an operation also hides the completions of
//! later ones from the counts.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use plugin_api::Status;

use crate::base::cma::Refused;
use crate::core::failures::Reporting;
use crate::engine::transport::Transport;
use crate::peer::endpoint::Endpoint;
use crate::peer::reach::{self, Standing};
use crate::peer::route::Transfers;

/// Reason for a liveness check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// An operation failed or was refused, to this peer if that is known; a dead peer is the likely cause.
    Suspicion(Option<NonNull<Endpoint>>),
    /// Nothing completed for a while.
    Quiet,
}

impl Transport {
    /// Makes the failure detector also report dead peers with no outstanding operations. For hosts in which no
    /// process exits before all others made their last call; elsewhere a peer that exits normally would count
    /// as dead.
    pub fn watch_idle_peers(&self) {
        self.detector.watch_idle.store(true, Ordering::Relaxed);
    }

    pub(crate) fn run_check(&self, reason: Reason) {
        // A release meanwhile keeps the endpoints that are found here.
        let _reporting = Reporting::begin(&self.failures);
        let now = self.detector.opened.elapsed().as_millis() as u64;
        let idle_too = self.detector.watch_idle.load(Ordering::Relaxed);
        let suspect = match reason {
            Reason::Suspicion(suspect) => suspect,
            Reason::Quiet => None,
        };
        let mut gone: Vec<(NonNull<Endpoint>, String)> = Vec::new();
        let mut silent: Vec<(NonNull<Endpoint>, String)> = Vec::new();
        let mut closed: Vec<(NonNull<Endpoint>, Refused)> = Vec::new();
        let elapsed;
        self.note_heartbeats();
        {
            let mut peers = self.lock_peers();
            let peers = &mut *peers;
            elapsed = now.saturating_sub(peers.watches.last);
            // This process spent more than one interval elsewhere.
            let passed = elapsed.min(self.setup.check_interval_ms);
            peers.watches.last = now;
            // Without a peer timeout there is nothing to check for remote peers, of which there may be a
            // million.
            let (local, all) = match self.setup.peer_timeout_ms {
                0 => (Some(peers.known.iter_local()), None),
                _ => (None, Some(peers.known.iter())),
            };
            for peer in local.into_iter().flatten().chain(all.into_iter().flatten()) {
                if peer.failure().is_some() {
                    peers.watches.long.remove(peer.proc);
                    continue;
                }
                // This process itself runs, but the provider may still not complete the operations to itself.
                let others = peer.process().filter(|process| *process != self.node.own);
                let probe = peers.probe(peer);
                let found = others.map(|process| (process, reach::standing(process, probe)));
                let state = found.map(|(_, standing)| standing.state());
                let suspected = suspect == Some(NonNull::from(peer));
                let due = idle_too || suspected || !peer.is_idle();
                if let Some((process, standing)) = found
                    && let Some(why) = standing.end(process)
                {
                    if due {
                        gone.push((NonNull::from(peer), why));
                        continue;
                    }
                    // Nothing is outstanding, so the failure is not reported. But CMA must not write to that process
                    // id any more, and a ring of the old program is answered by nobody.
                    if matches!(peer.transfers(), Transfers::Kernel | Transfers::Ring) {
                        peer.set_transfers(Transfers::Doubted);
                    }
                }
                if let Some((_, Standing::Closed(_, refused))) = found
                    && peer.transfers() == Transfers::Kernel
                {
                    closed.push((NonNull::from(peer), refused));
                }
                if self.setup.peer_timeout_ms == 0 {
                    continue;
                }
                let limit = self.setup.peer_timeout_ms;
                if let Some(why) = peers.watches.observe(peer, state, passed, limit) {
                    silent.push((NonNull::from(peer), why));
                }
            }
        }
        for (endpoint, refused) in closed {
            self.stop_cma(endpoint, refused);
        }
        for (endpoint, why) in gone {
            self.fail_peer(endpoint, Status::UNREACH, &why);
        }
        if self.node.has_rings {
            for endpoint in self.closed_peers() {
                self.fail_peer(endpoint, Status::UNREACH, "it has closed its transport");
            }
        }
        self.mapped.sweep();
        self.check_connections(suspect);
        for (endpoint, why) in silent {
            self.fail_silent(endpoint, &why);
        }
        self.tell_of_silence(elapsed);
        self.compounds.watch(elapsed);
        if reason == Reason::Quiet {
            self.beat(elapsed.min(self.setup.check_interval_ms));
        }
    }

    /// Has broken connections noticed, and fails peers whose processes refuse new ones.
    fn check_connections(&self, suspect: Option<NonNull<Endpoint>>) {
        if self.policy.has_messages() {
            self.knock();
        }
        for endpoint in self.refusing_peers(suspect) {
            if !self.has_left(endpoint) {
                self.fail_peer(endpoint, Status::UNREACH, "its process refuses connections");
            }
        }
    }
}
