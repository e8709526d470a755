//! Checks the peers: reports findings to the failure detector (`detector`), and acts on its verdicts.
//!
//! A process id, a start time and a word in the peer's memory show whether a local peer is dead (`reach`). A peer that is
//! stopped, or that completes nothing for another reason, fails only if the user sets `btl_ofi_peer_timeout`. A debugger
//! also stops peers, and they continue later.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use crate::base::descriptors;
use crate::core::context::Context;
use crate::detector::{Action, Cause};
use crate::engine::transport::Transport;
use crate::peer::endpoint::Endpoint;
use crate::peer::liveness::{ProcessId, Standing, standing};
use crate::peer::reach::Probe;
use crate::peer::route::Transfers;

/// Maximum silent peers that one check logs, so that a broken network does not flood the log.
const MOST: usize = 3;

/// A peer that must fail, and the reason.
pub(crate) type Failing = (NonNull<Endpoint>, Cause, String);

fn gone(why: &str) -> impl Fn(NonNull<Endpoint>) -> Failing {
    move |endpoint| (endpoint, Cause::Gone, why.to_owned())
}

impl Transport {
    /// Lets the failure detector also report dead peers that have no outstanding operations. Only for hosts whose
    /// processes exit after the last call of every process; otherwise a peer that exits normally would be reported
    /// as dead.
    pub fn watch_idle_peers(&self) {
        self.detector.watch_idle.store(true, Ordering::Relaxed);
    }

    /// Checks the peers: after some time without a completion (`quiet`), or after a failed or refused operation to
    /// `suspect`, if that peer is known. Returns the peers that must fail. The caller holds no lock, and has begun a
    /// report, which keeps the endpoints that this function finds.
    pub(crate) fn check(&self, suspect: Option<NonNull<Endpoint>>, quiet: bool) -> Vec<Failing> {
        let second = self.detector.lock().tick(self.detector.now());
        let beats = self.policy.posts_messages();
        if beats {
            self.note_heartbeats();
        }
        self.count_activity();
        if let Some(endpoint) = suspect {
            // SAFETY: the report that the caller began keeps the endpoint.
            self.detector.lock().suspect(unsafe { endpoint.as_ref() });
        }
        let mut failing = self.check_processes(suspect);
        self.mapped.sweep();
        if self.policy.has_messages() {
            self.ask_for_receipts();
        }
        let refusing = self.refusing_peers(suspect).into_iter();
        let refusing = refusing.filter(|endpoint| !self.has_left(*endpoint));
        failing.extend(refusing.map(gone("its process refuses connections")));
        if second || self.setup.peer_timeout_ms > 0 {
            self.check_silence(&mut failing);
        }
        if second {
            self.check_connections();
        }
        if quiet && beats && self.detector.lock().beats() {
            self.beat();
        }
        failing
    }

    /// Checks whether the processes of local peers run: of peers that owe an answer, of the suspect, and of
    /// some other peers.
    fn check_processes(&self, suspect: Option<NonNull<Endpoint>>) -> Vec<Failing> {
        let chosen: Vec<(NonNull<Endpoint>, ProcessId, Option<Probe>)> = {
            let peers = self.lock_peers();
            let mut watches = self.detector.lock();
            let turn = watches.local_turn(peers.known.iter_local().count());
            let due = peers.known.iter_local().enumerate().filter(|(at, peer)| {
                let is_suspect = suspect == Some(NonNull::from(*peer));
                peer.failure().is_none() && (turn.contains(at) || is_suspect || watches.has(peer))
            });
            let others = due.filter_map(|(_, peer)| {
                // This process itself runs, but the provider may fail to complete its operations to itself.
                let process = peer.process().filter(|process| *process != self.node.own)?;
                Some((NonNull::from(peer), process, peers.probe(peer)))
            });
            others.collect()
        };
        let idle_too = self.detector.watch_idle.load(Ordering::Relaxed);
        let mut failing = Vec::new();
        for (endpoint, process, probe) in chosen {
            // SAFETY: the report that the caller began keeps the endpoint.
            let peer = unsafe { endpoint.as_ref() };
            let (standing, transfers) = (standing(process, probe), peer.transfers());
            if let Standing::Closed(_, refused) = standing
                && transfers == Transfers::Kernel
            {
                self.stop_cma(endpoint, refused);
            }
            let end = (standing.end(process), idle_too || suspect == Some(endpoint));
            match self.detector.lock().process(peer, standing.state(), end) {
                Some(Action::Fail(cause, why)) => failing.push((endpoint, cause, why)),
                Some(_) if matches!(transfers, Transfers::Kernel | Transfers::Ring) => {
                    peer.set_transfers(Transfers::Doubted);
                }
                _ => {}
            }
        }
        if self.node.has_rings {
            let closed = self.closed_peers().into_iter();
            failing.extend(closed.map(gone("it has closed its transport")));
        }
        failing
    }

    /// Logs peers that owe an answer for a long time, and peers that answer again. Adds the peers that
    /// must fail to `failing`.
    fn check_silence(&self, failing: &mut Vec<Failing>) {
        let busy = |context: &Context| !context.count.total().is_idle();
        let busy = self.contexts.iter().any(busy);
        let actions = {
            let peers = self.lock_peers();
            self.detector.lock().look(&peers.known, busy)
        };
        let mut told = 0;
        for (endpoint, action) in actions {
            // SAFETY: the report that the caller began keeps the endpoint.
            let peer = unsafe { endpoint.as_ref() };
            match action {
                Action::Fail(cause, why) => {
                    failing.push((endpoint, cause, why));
                    continue;
                }
                Action::Warn(lasted) if told < MOST => self.tell_of_silence(peer, lasted),
                Action::Welcome(lasted) if told < MOST => tracing::warn!(
                    "{}process {} answers again, after {} s",
                    self.failures.of,
                    peer.proc,
                    lasted / 1000
                ),
                _ => {}
            }
            told += 1;
        }
        if told > MOST {
            tracing::warn!("the same holds for {} other processes", told - MOST);
        }
    }

    fn tell_of_silence(&self, peer: &Endpoint, lasted: u64) {
        let waits = match peer.total().outstanding() {
            0 => String::from("this process waits"),
            n => format!("{n} operations to it are outstanding"),
        };
        let short = descriptors::shortage().map_or_else(String::new, |short| format!("; {short}"));
        tracing::warn!(
            "{}process {} has not answered for {} s, {waits}: it computes without communicating, is \
             stopped, or its host or the network is down (btl_ofi_peer_timeout would give it up){short}",
            self.failures.of,
            peer.proc,
            lasted / 1000
        );
    }

    /// Fails the provider if it cannot accept the connections of peers.
    fn check_connections(&self) {
        let name = self.device.name();
        let waits = name.is_ok_and(descriptors::keep_a_peer_waiting);
        if let Some(lasted) = self.detector.lock().connection(waits) {
            self.fail_provider(&format!(
                "a peer has waited {} s for this process to accept its connection, for which no descriptor is left: raise the hard \
                 limit (ulimit -Hn) where the job starts",
                lasted / 1000
            ));
        }
    }
}
