//! Failures of operations and peers. Each outstanding operation is reported once, and no flush waits for an
//! operation that never completes.

mod aside;

use std::cell::Cell;
use std::ffi::{CString, c_void};
use std::ptr::{NonNull, fn_addr_eq};
use std::sync::PoisonError;
use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

use libfabric_sys as ffi;
use plugin_api::{CompletionFn, ErrorFlags, Status};

pub(super) use self::aside::Aside;
use crate::base::lock::Guard;
use crate::engine::compound::part_ended;
use crate::engine::context::{Context, State};
use crate::engine::staging::told;
use crate::engine::transport::Transport;
use crate::fabric::shm_orphans;
use crate::op::completion::Finished;
use crate::op::record::{Pool, Record};
use crate::op::tag::Tag;
use crate::peer::endpoint::Endpoint;

/// Why a peer is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Its process is gone, or the provider reports it as unreachable.
    Lost,
    /// It does not respond, but may come back.
    Silent,
    /// It was released while operations name it.
    Released,
}

thread_local! {
    /// Failure reports in progress on this thread.
    static REPORTING: Cell<u32> = const { Cell::new(0) };
}

/// Marks that a thread reports the operations of a failed peer.
pub(super) struct Reporting<'a>(&'a Transport);

impl<'a> Reporting<'a> {
    pub(super) fn begin(transport: &'a Transport) -> Reporting<'a> {
        REPORTING.set(REPORTING.get() + 1);
        transport.failures.reporting.fetch_add(1, Ordering::Relaxed);
        Reporting(transport)
    }
}

impl Drop for Reporting<'_> {
    fn drop(&mut self) {
        REPORTING.set(REPORTING.get() - 1);
        // Release pairs with the Acquire in `wait_for_reports`: a flush that returns sees the effects of the
        // callbacks.
        self.0.failures.reporting.fetch_sub(1, Ordering::Release);
    }
}

/// Replaces the provider's `fi_cq_read` once the endpoints are closed.
pub(crate) unsafe extern "C" fn never_read(_: *mut ffi::fid_cq, _: *mut c_void, _: usize) -> isize {
    -(ffi::FI_EAGAIN as isize)
}

/// Whether a callback is this transport's: of a part of an operation, which is reported as a whole.
fn is_own(function: CompletionFn) -> bool {
    let own: [CompletionFn; 2] = [part_ended, told];
    own.into_iter().any(|own| fn_addr_eq(own, function))
}

fn blocked_by(dead: u64) -> String {
    format!(
        "operations outstanding at the failed process {dead} block the provider's other operations; \
         the module can no longer be used"
    )
}

impl Transport {
    /// Records `n` failed operations without callback for the next flush, and reports them. The caller lowers their counts
    /// afterwards, so that this flush waits for them.
    pub(crate) fn lose(&self, tag: Tag, n: u32, status: Status, what: &str) {
        self.count_lost(tag, n);
        self.report_lost(tag, n, status, what);
    }

    /// Records failed operations without callback for the next flush. Their counts are lowered afterwards.
    pub(crate) fn count_lost(&self, tag: Tag, n: u32) {
        // SAFETY: endpoints outlive the operations whose tags name them.
        let peer = unsafe { &*tag.endpoint() };
        peer.lost.fetch_add(n, Ordering::Relaxed);
        self.failures.lost.fetch_add(n, Ordering::Relaxed);
    }

    /// Reports failed operations that were recorded. The caller holds no lock.
    pub(crate) fn report_lost(&self, tag: Tag, n: u32, status: Status, what: &str) {
        // SAFETY: endpoints outlive the operations whose tags name them.
        let peer = unsafe { &*tag.endpoint() };
        self.report(
            ErrorFlags::NONFATAL,
            Some(peer),
            status,
            &format!("{n} operation(s) to process {} failed: {what}", peer.proc),
        );
    }

    /// Reports operations of one peer that failed, before their callbacks run. The next flush tells of those without callback.
    /// Those with one are reported if the host asked for that ([`Options::report_every_failure`]).
    ///
    /// [`Options::report_every_failure`]: crate::Options::report_every_failure
    #[cold]
    pub(crate) fn tell_failed(&self, finished: &[Finished], status: Status, what: &str) {
        let Some(first) = finished.first() else {
            return;
        };
        let count = |of: fn(&&Finished) -> bool| finished.iter().filter(of).count() as u32;
        let silent = count(|f| f.function.is_none());
        if silent > 0 {
            self.lose(first.tag, silent, status, what);
        }
        if self.failures.every {
            let told = count(|f| f.function.is_some_and(|f| !is_own(f)) && !Pool::was_reported(f));
            if told > 0 {
                self.report_lost(first.tag, told, status, what);
            }
        }
    }

    /// Reports a failure of the whole module.
    pub(crate) fn report_module(&self, status: Status, what: &str) {
        self.report(ErrorFlags::FATAL, None, status, what);
    }

    fn report(&self, flags: ErrorFlags, peer: Option<&Endpoint>, status: Status, what: &str) {
        tracing::warn!("{}{what} [{status}]", self.failures.of);
        let report = *self
            .failures
            .report
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(report) = report else { return };
        let text = CString::new(what.replace('\0', " ")).unwrap_or_default();
        let endpoint = peer.map_or(std::ptr::null_mut(), |p| std::ptr::from_ref(p).cast_mut());
        // SAFETY: the host passed this function with its context and allows it to run on any thread that makes
        // progress; no lock is held.
        unsafe {
            (report.function)(
                self.setup.owner.load(Ordering::Relaxed),
                flags.bits(),
                endpoint.cast(),
                peer.map_or(u64::MAX, |p| p.proc),
                status.0,
                text.as_ptr(),
                report.context,
            );
        }
    }

    /// Gives a peer up. Outstanding operations with a callback are reported as failed now, later operations get
    /// `status` immediately, and flushes stop waiting for the peer. Records at the provider stay taken, because
    /// the provider may still write to them if the peer returns. Operations in the peer's ring end, because
    /// only this process writes their buffers.
    #[cold]
    pub(crate) fn fail_peer(&self, endpoint: NonNull<Endpoint>, status: Status, why: &str) {
        self.fail(endpoint, Cause::Lost, status, why);
    }

    /// Gives up a silent peer, which may come back. The provider is first kept from touching the buffers of
    /// outstanding operations, because the report returns them to the caller.
    #[cold]
    pub(crate) fn abandon_peer(&self, endpoint: NonNull<Endpoint>, why: &str) {
        self.fail(endpoint, Cause::Silent, Status::UNREACH, why);
    }

    /// [`abandon_peer`](Self::abandon_peer) for a peer that is no longer connected.
    #[cold]
    pub(crate) fn abandon_released(&self, endpoint: NonNull<Endpoint>, why: &str) {
        self.fail(endpoint, Cause::Released, Status::UNREACH, why);
    }

    fn fail(&self, endpoint: NonNull<Endpoint>, cause: Cause, status: Status, why: &str) {
        // SAFETY: endpoints live until the transport closes.
        let peer = unsafe { endpoint.as_ref() };
        // Must precede the Release stores that mark a peer or the module as failed, here and elsewhere. They
        // pair with the fence in `wait_for_reports`.
        let _reporting = Reporting::begin(self);
        // A released peer was ended by its release.
        let ended = !peer.is_connected() && cause != Cause::Released;
        if ended || !peer.fail(status) {
            return;
        }
        self.failures.degraded.store(true, Ordering::Release);
        self.failures
            .last_failure
            .store(status.0, Ordering::Relaxed);
        if !self.put_aside(|| Aside::Failed(endpoint, cause, status, why.to_owned())) {
            self.end_failed(endpoint, cause, status, why);
        }
    }

    /// Ends what concerns a peer that was marked as failed. The caller holds no lock.
    fn end_failed(&self, endpoint: NonNull<Endpoint>, cause: Cause, status: Status, why: &str) {
        // SAFETY: endpoints live until the transport closes.
        let peer = unsafe { endpoint.as_ref() };
        if let Some(process) = peer.process() {
            // Under mpirun no launcher of this project removes the orphaned segments.
            shm_orphans::remove(self.node.id, process);
        }
        self.mapped.forget(endpoint);
        // Their buffers are written by this process only, so they keep nobody from going on.
        self.abandon_messages(endpoint, status, why);
        self.fail_on_rails(peer.proc, why);
        let others = match cause {
            Cause::Silent | Cause::Released if peer.uses_provider() => self.cut_off(peer),
            Cause::Lost | Cause::Silent | Cause::Released => None,
        };
        self.report_failed(endpoint, status, why);
        match others {
            Some(others) => self.report_broken(&blocked_by(peer.proc), &others),
            None if self.policy.dead_peer_blocks && peer.uses_provider() => {
                let is_there = self.is_at_provider(peer, &self.lock_contexts());
                if is_there {
                    self.give_up(peer.proc);
                }
            }
            None => {}
        }
    }

    /// Reports the peer's failure and the failure of its outstanding operations.
    fn report_failed(&self, endpoint: NonNull<Endpoint>, status: Status, why: &str) {
        // SAFETY: endpoints live until the transport closes.
        let peer = unsafe { endpoint.as_ref() };
        self.report_outstanding(endpoint, status);
        self.streams.end_waiting(endpoint);
        self.abandon_puts(endpoint, status, why);
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

    /// Reports the failure of operations outstanding at the provider: not if it refused to close the endpoints, because it may
    /// still touch their buffers. Operations on device memory end when their parts and copies do
    /// ([`end_staged`](Self::end_staged)).
    pub(super) fn report_outstanding(&self, endpoint: NonNull<Endpoint>, status: Status) {
        if self.failures.refused_to_shut.load(Ordering::Relaxed) {
            return;
        }
        for context in &self.contexts {
            let silenced: Vec<Finished> = {
                let mut state = context.state.lock();
                let records = state.pool.in_use(Some(endpoint));
                // SAFETY: `in_use` found the records in use, and the lock is held.
                let silenced = records.into_iter().filter_map(|r| unsafe {
                    match self.is_staged(r) {
                        true => None,
                        false => state.pool.silence(r),
                    }
                });
                silenced.collect()
            };
            for f in silenced {
                self.call_only(&f, status);
            }
        }
    }

    /// Stops the provider from touching the buffers of operations outstanding at a peer. No available provider
    /// can drop the operations of one peer (removing its address does not), so this closes the endpoints. That
    /// also disconnects all other peers reached through the provider, which are returned. `None` if nothing is
    /// at the provider for this peer.
    fn cut_off(&self, peer: &Endpoint) -> Option<Vec<NonNull<Endpoint>>> {
        // Every post holds one of these locks and checks for the failure after taking it.
        let mut guards = self.lock_contexts();
        let is_there = self.is_at_provider(peer, &guards);
        if !is_there || self.failures.broken.load(Ordering::Relaxed) {
            return None;
        }
        Some(self.disconnect_all(&mut guards))
    }

    fn lock_contexts(&self) -> Vec<Guard<'_, State>> {
        self.contexts.iter().map(|c| c.state.lock()).collect()
    }

    /// Whether the provider has operations of a peer. Those in parts and those on device memory may have none there: they wait
    /// for room, or for a copy. All contexts are locked by `guards`.
    fn is_at_provider(&self, peer: &Endpoint, guards: &[Guard<'_, State>]) -> bool {
        let whole = |state: &Guard<'_, State>| {
            let records = state.pool.in_use(Some(NonNull::from(peer)));
            let whole = records
                .into_iter()
                // SAFETY: `in_use` found the records in use, and the lock is held.
                .filter(|r| unsafe { Record::tag(*r) }.is_whole());
            whole.count() as u32
        };
        // They are counted beside their parts. One that ends meanwhile has given its record back before its count is lowered, so the
        // provider may seem to have one operation too many, never one too few.
        let whole: u32 = guards.iter().map(whole).sum();
        peer.total().outstanding() > whole
    }

    /// Closes the endpoints. Returns the peers that were reached through the provider and had not failed. All contexts are
    /// locked by `guards`.
    pub(super) fn disconnect_all(&self, guards: &mut [Guard<'_, State>]) -> Vec<NonNull<Endpoint>> {
        let peers = self.lock_peers();
        self.failures.broken.store(true, Ordering::Relaxed);
        let reached_so = peers.known.iter().filter(|p| p.uses_provider());
        let others = reached_so.filter(|p| p.fail(Status::FATAL));
        let others = others.map(NonNull::from).collect();
        for state in guards {
            state.read = never_read;
            if let Some(messages) = &mut state.messages {
                messages.shut();
            }
        }
        // The device has logged the error.
        let refused = self.device.shut().is_err();
        self.failures
            .refused_to_shut
            .store(refused, Ordering::Relaxed);
        others
    }

    /// Gives up every peer reached through the provider, which completes nothing more. The endpoints stay open, for the operations of
    /// living peers on this process's memory; docs/failures.md says what may follow.
    #[cold]
    fn give_up(&self, dead: u64) {
        let others: Vec<NonNull<Endpoint>> = {
            // A peer whose atomics go over to the provider does so under this lock: it sees the mark, or is found here.
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

    /// Reports that the module is unusable, and the failure of operations outstanding at the `others`.
    fn report_broken(&self, what: &str, others: &[NonNull<Endpoint>]) {
        // Pieces of what is reported now may be on their way over the rails.
        self.close_rails(what);
        for endpoint in others {
            self.report_failed(*endpoint, Status::FATAL, what);
        }
        self.failures
            .last_failure
            .store(Status::FATAL.0, Ordering::Relaxed);
        self.report_module(Status::FATAL, what);
    }

    /// Gives up the provider, whose completions cannot be read any more: closes the endpoints, so that it leaves the buffers
    /// alone, and reports the operations outstanding there. The caller holds no lock.
    #[cold]
    pub(crate) fn lose_provider(&self, what: &str) {
        let _reporting = Reporting::begin(self);
        self.failures.degraded.store(true, Ordering::Release);
        let others = {
            let mut guards = self.lock_contexts();
            if self.failures.broken.load(Ordering::Relaxed) {
                return;
            }
            self.disconnect_all(&mut guards)
        };
        self.report_broken(what, &others);
    }

    /// For a flush that saw a peer fail: waits until the device copies for it are over, and until the callbacks that other
    /// threads run for it have returned. Does not wait on a thread that is inside such a callback itself.
    /// The fence pairs with the Release stores that mark a peer or the module as failed, the load with the
    /// Release in the drop of `Reporting`.
    #[cold]
    pub(crate) fn wait_for_reports(&self, deadline: Option<Instant>) {
        if self.is_copy() {
            // The threads that report are the parent's.
            return;
        }
        fence(Ordering::Acquire);
        if REPORTING.get() == 0 && !self.failures.refused_to_shut.load(Ordering::Relaxed) {
            self.end_staged(deadline);
        }
        while self.failures.reporting.load(Ordering::Acquire) > 0 && REPORTING.get() == 0 {
            // A callback may wait for something that only its host brings about.
            if deadline.is_some_and(|d| Instant::now() >= d) {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Some providers (shm, if cross-memory attach fails) report an error that names no operation. Every
    /// outstanding operation either completes or is one of the failed ones. Once the number outstanding equals
    /// the number of such errors, all outstanding operations are the failed ones.
    #[cold]
    pub(crate) fn settle_unattributed(&self) -> usize {
        // Whatever the errors were: with the status of a lost peer, an operation says that its peer is reported too.
        let status = Status::ERROR;
        let mut guards: Vec<_> = self.contexts.iter().map(|c| c.state.lock()).collect();
        let failed: u32 = guards.iter().map(|s| s.unattributed).sum();
        let ready: usize = guards.iter().map(|s| s.ready.len()).sum();
        if failed == 0 || ready != 0 {
            return 0;
        }
        // Compound and staged operations are counted beside their parts, and are over when those are.
        let mut kept: Vec<(usize, Tag)> = Vec::new();
        let mut recorded: Vec<(usize, NonNull<Record>)> = Vec::new();
        for (index, state) in guards.iter().enumerate() {
            for record in state.pool.in_use(None) {
                // SAFETY: `in_use` found the record in use, and the lock is held.
                let tag = unsafe { Record::tag(record) };
                match tag.is_whole() {
                    true => kept.push((index, tag)),
                    false => recorded.push((index, record)),
                }
            }
        }
        let counted: u32 = self.contexts.iter().map(|c| c.count.outstanding()).sum();
        if counted.wrapping_sub(kept.len() as u32) != failed {
            return 0;
        }
        for state in &mut guards {
            state.unattributed = 0;
        }
        let finished = recorded.into_iter().map(|(index, record)| {
            // SAFETY: `in_use` found the record in use, and the lock is held.
            (index, unsafe { guards[index].pool.give_back(record) })
        });
        let finished: Vec<(usize, Finished)> = finished.collect();
        let recorded: Vec<(usize, Tag)> = finished.iter().map(|(i, f)| (*i, f.tag)).collect();
        let mut suspects: Vec<_> = recorded.iter().map(|(_, tag)| tag.endpoint()).collect();
        let recorded = [recorded, kept].concat();
        // The rest is untracked: lower the counts here, because nothing else accounts for it.
        let mut lost = Vec::new();
        {
            let peers = self.lock_peers();
            for peer in peers.known.iter() {
                let endpoint = NonNull::from(peer);
                let mut untracked = 0;
                for (share, pair) in peer.total().pairs().enumerate() {
                    for phase in 0..2 {
                        let here = |(index, tag): &(usize, Tag)| {
                            let at = (self.contexts[*index].share.number(), tag.endpoint());
                            at == (share, endpoint.as_ptr()) && tag.endpoint_phase() == phase
                        };
                        let here = recorded.iter().filter(|one| here(one)).count() as u32;
                        let n = pair.outstanding_in(phase).saturating_sub(here);
                        if n > 0 {
                            self.count_lost(Tag::new(endpoint, 0, 0), n);
                            pair.lower(phase, n, self.setup.threaded);
                            untracked += n;
                        }
                    }
                }
                if untracked > 0 {
                    suspects.push(endpoint.as_ptr());
                    lost.push((endpoint, untracked));
                }
            }
        }
        for (index, context) in self.contexts.iter().enumerate() {
            for phase in 0..2 {
                let here = |i: usize, tag: Tag| i == index && tag.context_phase() == phase;
                let here = recorded.iter().filter(|(i, tag)| here(*i, *tag)).count() as u32;
                let pair = context.count.pair();
                let n = pair.outstanding_in(phase).saturating_sub(here);
                pair.lower(phase, n, self.setup.threaded);
            }
        }
        // A release meanwhile keeps the endpoints, although nothing is outstanding any more.
        let _reporting = Reporting::begin(self);
        drop(guards);
        let what = "the provider reported an error without naming the operation";
        for (endpoint, n) in lost {
            self.report_lost(Tag::new(endpoint, 0, 0), n, status, what);
        }
        let count = failed as usize;
        for (index, f) in finished {
            let context: &Context = &self.contexts[index];
            self.tell_failed(&[f], status, what);
            self.deliver(context, &[f], status);
        }
        suspects.sort_unstable();
        suspects.dedup();
        for endpoint in suspects {
            self.check_peers(NonNull::new(endpoint));
        }
        count
    }
}
