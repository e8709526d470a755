//! Failure detector: finds local peers that died or stopped, and silent peers.
//!
//! A local peer's death is found by its process id, its start time and a word in its memory (`reach`). A peer
//! that is stopped, or that completes nothing for any reason, is given up only if the user sets
//! `btl_ofi_peer_timeout`: a debugger also stops peers, and they come back. Only time in which this process
//! polls counts; time in which it is stopped or computes does not count as the peer's silence.
//!
//! A peer lives if an operation to it completes, or a part of one; and one that receives a long transfer has more time ([`long`]).
//! Time in which an operation to it waits for a copy of this process does not count: such an operation also hides the completions of
//! later ones from the counts.

pub(crate) mod long;

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use plugin_api::Status;

use crate::base::cma::Refused;
use crate::engine::failure::{Aside, Reporting};
use crate::engine::heartbeat::Heartbeats;
pub(crate) use crate::engine::liveness::long::LONG;
use crate::engine::liveness::long::LongTransfers;
use crate::engine::silence::Silences;
use crate::engine::transport::Transport;
use crate::peer::endpoint::{COPY_FOR_DETECTOR, Endpoint, PART_FOR_DETECTOR};
use crate::peer::liveness::State;
use crate::peer::outstanding::{Backlog, Mark};
use crate::peer::reach::{self, Standing};
use crate::peer::route::Transfers;
use crate::peer::trial::Trial;

/// The failure detector.
pub(crate) struct Detector {
    pub(crate) opened: Instant,
    /// Milliseconds from `opened` to the last check.
    pub(crate) last_check: AtomicU64,
    /// Set once closing or releasing a peer timed out. Later releases then do not wait again for operations
    /// that never complete. A new peer clears it.
    pub(crate) impatient: AtomicBool,
    /// Whether peers with no outstanding operations are checked too.
    pub(crate) watch_idle: AtomicBool,
}

impl Detector {
    pub(crate) fn new() -> Detector {
        Detector {
            opened: Instant::now(),
            last_check: AtomicU64::new(0),
            impatient: AtomicBool::new(false),
            watch_idle: AtomicBool::new(false),
        }
    }
}

/// Reason for a liveness check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// An operation failed or was refused, to this peer if that is known; a dead peer is the likely cause.
    Suspicion(Option<NonNull<Endpoint>>),
    /// Nothing completed for a while.
    Quiet,
}

/// State of one peer between two checks.
#[derive(Debug)]
struct Watched {
    mark: Mark,
    backlog: Backlog,
    /// Milliseconds with outstanding operations and no completion, not even of a part, or with a heartbeat that is not answered.
    silent: u64,
    /// Milliseconds since a check first found the process stopped or gone. The interval before that check does
    /// not count.
    away: Option<u64>,
}

/// State of all peers after the last check.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    peers: HashMap<u64, Watched>,
    /// Kept only with a peer timeout.
    pub(crate) long: LongTransfers,
    /// Trial connections to peers that the provider takes nothing for, by process number.
    pub(crate) trials: HashMap<u64, Trial>,
    /// Peers that do not answer.
    pub(crate) silences: Silences,
    pub(crate) heartbeats: Heartbeats,
    last: u64,
}

impl Watches {
    /// Notes what a peer has done in the `passed` milliseconds since the last check. Returns why it counts as silent if it
    /// does so for `limit` milliseconds. Of the remote peers, which may be a million, it keeps
    /// only those that owe an answer.
    fn observe(
        &mut self,
        peer: &Endpoint,
        state: Option<State>,
        passed: u64,
        limit: u64,
    ) -> Option<String> {
        let idle = peer.is_idle();
        let asked = self.heartbeats.awaits(peer);
        if state.is_none() && idle && !asked {
            self.peers.remove(&peer.proc);
            self.long.forget(peer.proc);
            return None;
        }
        let more = self.long.time_of(peer);
        let Some(watched) = self.peers.get_mut(&peer.proc) else {
            let watched = Watched {
                mark: peer.total().mark(),
                backlog: peer.total().backlog(),
                silent: 0,
                away: is_away(state).then_some(0),
            };
            self.peers.insert(peer.proc, watched);
            return None;
        };
        watched.update(peer, state, passed, idle && asked);
        watched.failure_reason((limit, more), idle)
    }

    pub(crate) fn forget(&mut self, proc: u64) {
        self.peers.remove(&proc);
        self.long.forget(proc);
        self.trials.remove(&proc);
        self.silences.forget(proc);
        self.heartbeats.forget(proc);
    }
}

impl Transport {
    /// Makes the failure detector also report dead peers with no outstanding operations. For hosts in which no
    /// process exits before all others made their last call; elsewhere a peer that exits normally would count
    /// as dead.
    pub fn watch_idle_peers(&self) {
        self.detector.watch_idle.store(true, Ordering::Relaxed);
    }

    /// Checks the peers, at most once per interval.
    #[cold]
    pub(crate) fn check_peers_now_and_then(&self) {
        if self.is_copy() {
            return;
        }
        let now = self.detector.opened.elapsed().as_millis() as u64;
        let last = self.detector.last_check.load(Ordering::Relaxed);
        if now.wrapping_sub(last) < self.setup.check_interval_ms {
            return;
        }
        if self.put_aside(|| Aside::CheckIfDue) {
            return;
        }
        // Only one of several threads checks.
        let mine = self
            .detector
            .last_check
            .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok();
        if mine {
            self.run_check(Reason::Quiet);
        }
    }

    /// Checks the peers immediately, because something went wrong.
    #[cold]
    ///
    /// Without operations outstanding, only the `suspect` counts as failed: another peer that is gone may have left in good
    /// order.
    pub(crate) fn check_peers(&self, suspect: Option<NonNull<Endpoint>>) {
        if !self.put_aside(|| Aside::Check(suspect)) {
            self.run_check(Reason::Suspicion(suspect));
        }
    }

    fn run_check(&self, reason: Reason) {
        // A release meanwhile keeps the endpoints that are found here.
        let _reporting = Reporting::begin(self);
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
                    peers.watches.long.forget(peer.proc);
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
            self.leave_kernel(endpoint, refused);
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
            self.abandon_peer(endpoint, &why);
        }
        self.tell_of_silence(elapsed);
        self.watch_rails(elapsed);
        if reason == Reason::Quiet {
            self.beat(elapsed.min(self.setup.check_interval_ms));
        }
    }

    /// Has broken connections noticed, and gives up peers whose processes refuse new ones.
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

fn is_away(state: Option<State>) -> bool {
    matches!(state, Some(State::Stopped | State::Gone))
}

impl Watched {
    /// `asked`: only a heartbeat is to be answered.
    fn update(&mut self, peer: &Endpoint, state: Option<State>, passed: u64, asked: bool) {
        let part = peer.take_mark(PART_FOR_DETECTOR);
        let copies = peer.take_mark(COPY_FOR_DETECTOR);
        if asked {
            self.silent += passed;
            self.mark = peer.total().mark();
        } else if peer.total().settle(self.mark) {
            self.mark = peer.total().mark();
            self.silent = 0;
        } else if part || peer.total().backlog().is_less_than(self.backlog) {
            // Some operations completed, or parts of one, though not yet all of the backlog.
            self.silent = 0;
        } else if !copies {
            self.silent += passed;
        }
        self.backlog = peer.total().backlog();
        self.away = is_away(state).then(|| self.away.map_or(0, |before| before + passed));
    }

    /// `more`: milliseconds beyond the limit for long transfers.
    fn failure_reason(&self, (limit, more): (u64, u64), idle: bool) -> Option<String> {
        if let Some(away) = self.away.filter(|away| *away >= limit) {
            return Some(format!(
                "its process on this node has been stopped or gone for {away} ms (btl_ofi_peer_timeout {limit})"
            ));
        }
        let what = match idle {
            true => "this process waits, and it has not answered a heartbeat",
            false => "operations to it are outstanding, and none completed",
        };
        let for_long = match more {
            0 => String::new(),
            more => format!(", and {more} ms for long transfers"),
        };
        (self.silent >= limit + more).then(|| {
            format!(
                "{what} for {} ms (btl_ofi_peer_timeout {limit}{for_long})",
                self.silent
            )
        })
    }
}

#[cfg(test)]
mod tests;
