//! Failures of peers and of the provider, from the check to the report. Each outstanding operation is reported once, and no
//! flush waits for an operation that never completes.
//!
//! A check passes its findings to the failure detector (`detector`), and acts on the detector's verdicts. A process id, a start
//! time and a word in the peer's memory show whether a local peer is dead (`reach`).

use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

use plugin_api::{ErrorFlags, Status};

use crate::core::failures::{Found, Reporting};
use crate::detector::{Action, Cause};
use crate::engine::silence::Failing;
use crate::engine::transport::Transport;
use crate::fabric::shm_files;
use crate::peer::endpoint::Endpoint;
use crate::peer::liveness::{ProcessId, Standing, standing};
use crate::peer::reach::Probe;
use crate::peer::route::Transfers;

fn blocked_by(dead: u64) -> String {
    format!(
        "operations outstanding at the failed process {dead} block the provider's others: the module can no longer be used"
    )
}

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

    /// Acts on the failures that were found (`core::failures`). The caller holds no lock. Returns their number.
    #[cold]
    #[inline(never)]
    pub(crate) fn act_on_failures(&self) -> usize {
        let mut n = 0;
        // A thread that holds a lock on operations leaves the failures to its next progress.
        while !self.is_quiet()
            && let Some((found, _reporting)) = self.take_found()
        {
            n += 1;
            match found {
                Found::Check(suspect, is_due) => {
                    for (endpoint, cause, why) in self.check(suspect, is_due) {
                        self.peer_failed(endpoint, cause, Status::UNREACH, &why);
                    }
                    if is_due {
                        self.release_lost_lanes();
                    }
                }
                Found::CmaRefused(endpoint, refused) => {
                    self.examine(endpoint, refused);
                }
                Found::Failed(endpoint, cause, status, why) => {
                    self.peer_failed(endpoint, cause, status, &why);
                }
                Found::ProviderFailed(what) => self.provider_failed(&what),
            }
        }
        n
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

    /// Marks a peer as failed, so that posts and flushes no longer wait for it, and ends its operations, rings and
    /// messages. The caller holds no lock, and has begun a report.
    pub(crate) fn peer_failed(
        &self,
        endpoint: NonNull<Endpoint>,
        cause: Cause,
        status: Status,
        why: &str,
    ) {
        // SAFETY: endpoints live until the transport closes.
        let peer = unsafe { endpoint.as_ref() };
        // A released peer was already ended by its release.
        let ended = !peer.is_connected() && cause != Cause::Released;
        // Release: pairs with the fence in `wait_for_reports`, like the other stores that mark a peer or the module as
        // failed. The caller began its report before this store.
        if ended || !peer.fail(status) {
            return;
        }
        self.failures.degraded.store(true, Ordering::Release);
        self.failures
            .last_failure
            .store(status.0, Ordering::Relaxed);
        if let Some(process) = peer.process() {
            // Under mpirun, no launcher of this project removes the orphaned segments.
            shm_files::remove(self.node.id, process);
        }
        self.mapped.abandon(endpoint);
        // Only this process writes the buffers of messages, so messages can end before the
        // endpoints are closed.
        self.abandon_messages(endpoint, status, why);
        self.fail_on_rails(peer.proc, why);
        let others = match cause {
            Cause::Silent | Cause::Released if peer.uses_provider() => {
                self.close_endpoints_for(peer)
            }
            Cause::Gone | Cause::Silent | Cause::Released => None,
        };
        self.report_failed(endpoint, status, why);
        match others {
            Some(others) => self.report_broken(&blocked_by(peer.proc), &others),
            None if self.policy.dead_peer_blocks && peer.uses_provider() => {
                let is_there = self.is_at_provider(peer, &self.lock_contexts());
                if is_there {
                    self.fail_others(peer.proc);
                }
            }
            None => {}
        }
    }

    /// Reports the peer's failure and the failure of its outstanding operations.
    fn report_failed(&self, endpoint: NonNull<Endpoint>, status: Status, why: &str) {
        // SAFETY: endpoints live until the transport closes.
        let peer = unsafe { endpoint.as_ref() };
        self.report_outstanding(endpoint, (status, why), |record| {
            // SAFETY: the record is in use, and the lock of its pool is held.
            unsafe { self.is_staged(record) }
        });
        if self.node.has_rings {
            self.abandon_commands(endpoint, status, why);
        }
        self.abandon_messages(endpoint, status, why);
        self.report(
            ErrorFlags::NONFATAL,
            Some(peer),
            status,
            &format!("process {} is gone: {why}", peer.proc),
        );
    }

    /// Fails every peer that the provider reaches, because the provider completes nothing more. The endpoints stay open,
    /// for the operations of living peers on this process's memory; docs/failures.md describes the consequences.
    #[cold]
    fn fail_others(&self, dead: u64) {
        let others: Vec<NonNull<Endpoint>> = {
            // A peer whose atomics change to the provider's route changes under this lock. Either the thread that
            // changes the route sees `broken`, or this call finds the peer.
            let _state = self.contexts[0].state.lock();
            if self.failures.broken.swap(true, Ordering::Relaxed) {
                return;
            }
            let peers = self.lock_peers();
            let reached_so = peers.known.iter().filter(|p| p.uses_provider());
            let living = reached_so.filter(|p| p.fail(Status::FATAL));
            living.map(NonNull::from).collect()
        };
        self.report_broken(&blocked_by(dead), &others);
    }

    /// Reports that the module is unusable, and that the operations outstanding at the `others`
    /// failed.
    fn report_broken(&self, what: &str, others: &[NonNull<Endpoint>]) {
        // Fragments of operations that are reported here may be outstanding on the rails.
        self.close_rails(what);
        for endpoint in others {
            self.report_failed(*endpoint, Status::FATAL, what);
        }
        self.failures
            .last_failure
            .store(Status::FATAL.0, Ordering::Relaxed);
        self.report(ErrorFlags::FATAL, None, Status::FATAL, what);
    }

    /// A flush that saw a peer fail calls this. Waits until the device copies for the peer are over, and until the
    /// callbacks that other threads run for the peer have returned. A thread that is itself inside such a callback does
    /// not wait. The fence pairs with the Release stores that mark a peer or the module as failed. The load pairs with the
    /// Release in the drop of `Reporting`.
    #[cold]
    pub(crate) fn wait_for_reports(&self, deadline: Option<Instant>) {
        if self.is_copy() {
            // The threads that report belong to the parent process.
            return;
        }
        fence(Ordering::Acquire);
        self.act_on_failures();
        if !Reporting::is_here() && !self.failures.refused_to_close.load(Ordering::Relaxed) {
            self.fail_staged(deadline);
        }
        while self.failures.reporting.load(Ordering::Acquire) > 0 && !Reporting::is_here() {
            // A callback may wait for an event that only the host brings about.
            if deadline.is_some_and(|d| Instant::now() >= d) {
                return;
            }
            // Another thread may have found a failure and make no progress itself.
            self.act_on_failures();
            std::thread::yield_now();
        }
    }

    /// Fails the provider, because its completions can no longer be read. Closes the endpoints, so that the provider no
    /// longer accesses buffers, and reports the operations that were outstanding at the provider. The caller holds no
    /// lock.
    #[cold]
    fn provider_failed(&self, what: &str) {
        self.failures.degraded.store(true, Ordering::Release);
        let others = {
            let mut guards = self.lock_contexts();
            if self.failures.broken.load(Ordering::Relaxed) {
                return;
            }
            self.close_endpoints(&mut guards)
        };
        self.report_broken(what, &others);
    }

    /// Fails a peer on the rails after it failed on the first interface. The peer may live and only the first interface
    /// may be broken, so the rails must stop accessing the operations' buffers.
    fn fail_on_rails(&self, proc: u64, why: &str) {
        // A release in another thread keeps the endpoints while these reports last.
        let _reporting: Vec<_> = self
            .rails
            .iter()
            .map(|t| Reporting::begin(&t.failures))
            .collect();
        let tracks = self.rails.tracks(proc);
        for track in tracks.into_iter().flatten().flatten() {
            if let Some(rail) = self.rails.get(track.rail) {
                // Before this transport reports its operations, because their fragments may be outstanding
                // on the rail.
                rail.peer_failed(track.endpoint, Cause::Silent, Status::UNREACH, why);
            }
        }
    }

    /// Closes all rails.
    fn close_rails(&self, why: &str) {
        for rail in self.rails.iter() {
            rail.close_rail(why);
        }
    }
}
