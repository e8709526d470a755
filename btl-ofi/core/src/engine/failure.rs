//! When operations or peers fail: each outstanding operation is reported once, and nobody waits for
//! what will not come.

use std::cell::Cell;
use std::ffi::{CString, c_void};
use std::ptr::NonNull;
use std::sync::PoisonError;
use std::sync::atomic::{Ordering, fence};

use libfabric_sys as ffi;
use plugin_api::{ErrorFlags, Status};

use crate::engine::context::Context;
use crate::engine::transport::Transport;
use crate::fabric::shm_orphans;
use crate::op::record::{Finished, Tag};
use crate::peer::endpoint::Endpoint;

/// Why a peer is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// It is gone, or the provider says that it cannot be reached.
    Lost,
    /// It may come back.
    Silent,
}

thread_local! {
    /// Reports under way that this thread is making itself.
    static TELLING: Cell<u32> = const { Cell::new(0) };
}

/// A thread reports the operations of a peer that is given up.
struct Telling<'a>(&'a Transport);

impl<'a> Telling<'a> {
    fn begin(transport: &'a Transport) -> Telling<'a> {
        TELLING.set(TELLING.get() + 1);
        transport.telling.fetch_add(1, Ordering::Relaxed);
        Telling(transport)
    }
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        TELLING.set(TELLING.get() - 1);
        // Pairs with `wait_until_told`: what callbacks did is seen by whose flush comes back.
        self.0.telling.fetch_sub(1, Ordering::Release);
    }
}

/// Stands in for the provider's reading of a queue that must do nothing more.
unsafe extern "C" fn never_read(_: *mut ffi::fid_cq, _: *mut c_void, _: usize) -> isize {
    -(ffi::FI_EAGAIN as isize)
}

impl Transport {
    /// Remembers that operations without callback failed, for the next flush, and reports it.
    pub(crate) fn lose(&self, tag: Tag, n: u32, status: Status, what: &str) {
        // SAFETY: tags are made from endpoints that outlive their operations.
        let peer = unsafe { &*tag.endpoint() };
        peer.lost.fetch_add(n, Ordering::Relaxed);
        self.lost.fetch_add(n, Ordering::Relaxed);
        self.report(
            ErrorFlags::NONFATAL,
            Some(peer),
            status,
            &format!("{n} operation(s) to process {} failed: {what}", peer.proc),
        );
    }

    /// Reports a failure of the whole module.
    pub(crate) fn report_module(&self, status: Status, what: &str) {
        self.report(ErrorFlags::FATAL, None, status, what);
    }

    fn report(&self, flags: ErrorFlags, peer: Option<&Endpoint>, status: Status, what: &str) {
        tracing::warn!("{what} [{status}]");
        let report = *self.report.read().unwrap_or_else(PoisonError::into_inner);
        let Some(report) = report else { return };
        let text = CString::new(what.replace('\0', " ")).unwrap_or_default();
        let endpoint = peer.map_or(std::ptr::null_mut(), |p| std::ptr::from_ref(p).cast_mut());
        // SAFETY: the host gave the function with its context and lets it run on any thread that
        // makes progress; no lock is held.
        unsafe {
            (report.function)(
                self.owner.load(Ordering::Relaxed),
                flags.bits(),
                endpoint.cast(),
                peer.map_or(u64::MAX, |p| p.proc),
                status.0,
                text.as_ptr(),
                report.context,
            );
        }
    }

    /// Gives a peer up: every operation to it that is outstanding and has a callback is reported as
    /// failed now, further ones get `status` at once, and flushes stop waiting for it. Its records
    /// stay taken, because the provider may still write to them should the peer return; what is in
    /// its ring is over, since nobody but us writes there.
    #[cold]
    pub(crate) fn fail_peer(&self, endpoint: NonNull<Endpoint>, status: Status, why: &str) {
        self.fail(endpoint, Cause::Lost, status, why);
    }

    /// Gives up a peer that says nothing, and may yet come back: before anything is reported, the
    /// provider is kept from touching the buffers of what is outstanding, for they are the caller's
    /// again after that.
    #[cold]
    pub(crate) fn abandon_peer(&self, endpoint: NonNull<Endpoint>, why: &str) {
        self.fail(endpoint, Cause::Silent, Status::UNREACH, why);
    }

    fn fail(&self, endpoint: NonNull<Endpoint>, cause: Cause, status: Status, why: &str) {
        // SAFETY: endpoints live until the transport closes.
        let peer = unsafe { endpoint.as_ref() };
        // Before anybody can see that the peer failed. Release, here and wherever a peer or the module is
        // marked so: pairs with the fence in `wait_until_told`.
        let _telling = Telling::begin(self);
        let first = peer
            .failed
            .compare_exchange(0, status.0, Ordering::Release, Ordering::Relaxed)
            .is_ok();
        if !first {
            return;
        }
        if let Some(process) = peer.process() {
            // Nobody else may be left to do it: under mpirun no launcher of ours looks after it.
            shm_orphans::remove(self.node, process);
        }
        self.degraded.store(true, Ordering::Release);
        self.last_failure.store(status.0, Ordering::Relaxed);
        let others = match cause {
            Cause::Silent if peer.uses_provider() => self.cut_off(peer),
            Cause::Lost | Cause::Silent => None,
        };
        self.report_failed(endpoint, status, why);
        match others {
            Some(others) => self.report_broken(peer.proc, &others),
            None if self.policy.dead_peer_blocks
                && peer.uses_provider()
                && peer.count.outstanding() > 0 =>
            {
                self.give_up(peer.proc);
            }
            None => {}
        }
    }

    /// Reports what is outstanding at a peer as failed, and that the peer is.
    fn report_failed(&self, endpoint: NonNull<Endpoint>, status: Status, why: &str) {
        // SAFETY: endpoints live until the transport closes.
        let peer = unsafe { endpoint.as_ref() };
        for context in &self.contexts {
            let silenced: Vec<Finished> = {
                let mut state = context.state.lock();
                let records = state.pool.in_use(Some(endpoint));
                // SAFETY: `in_use` found them in use, and the lock is held.
                let silenced = records
                    .into_iter()
                    .filter_map(|r| unsafe { state.pool.silence(r) });
                silenced.collect()
            };
            for f in silenced {
                self.call_only(&f, status);
            }
        }
        if self.channelled {
            self.abandon_commands(endpoint, status, why);
        }
        self.report(
            ErrorFlags::NONFATAL,
            Some(peer),
            status,
            &format!("process {} is gone: {why}", peer.proc),
        );
    }

    /// Sees to it that the provider no longer touches the buffers of what is outstanding at a peer. No
    /// provider at hand can be made to drop the operations of one peer (removing its address does not),
    /// so the endpoints are closed, and with them the ways to all others that are reached through the
    /// provider, which are returned. `None` if nothing was outstanding.
    fn cut_off(&self, peer: &Endpoint) -> Option<Vec<NonNull<Endpoint>>> {
        // Whoever posts has one of these, and has looked for the failure after taking it.
        let mut guards: Vec<_> = self.contexts.iter().map(|c| c.state.lock()).collect();
        if peer.count.outstanding() == 0 || self.broken.load(Ordering::Relaxed) {
            return None;
        }
        let peers = self.lock_peers();
        self.broken.store(true, Ordering::Relaxed);
        let reached_so = peers.known.iter().filter(|p| p.uses_provider());
        let others = reached_so.filter(|p| {
            p.failed
                .compare_exchange(0, Status::FATAL.0, Ordering::Release, Ordering::Relaxed)
                .is_ok()
        });
        let others = others.map(NonNull::from).collect();
        for state in &mut guards {
            state.read = never_read;
        }
        self.device.shut();
        Some(others)
    }

    /// Gives up every peer that is reached through the provider, which will complete nothing more.
    #[cold]
    fn give_up(&self, dead: u64) {
        if self.broken.swap(true, Ordering::Relaxed) {
            return;
        }
        let others: Vec<NonNull<Endpoint>> = {
            let peers = self.lock_peers();
            let reached_so = peers.known.iter().filter(|p| p.uses_provider());
            let living = reached_so.filter(|p| {
                p.failed
                    .compare_exchange(0, Status::FATAL.0, Ordering::Release, Ordering::Relaxed)
                    .is_ok()
            });
            living.map(NonNull::from).collect()
        };
        self.report_broken(dead, &others);
    }

    /// Reports that the module is of no use any more, and what was outstanding at the `others`.
    fn report_broken(&self, dead: u64, others: &[NonNull<Endpoint>]) {
        let what = format!(
            "operations outstanding at process {dead}, which was given up, block this provider's others; \
             the module can no longer be used"
        );
        for endpoint in others {
            self.report_failed(*endpoint, Status::FATAL, &what);
        }
        self.last_failure.store(Status::FATAL.0, Ordering::Relaxed);
        self.report_module(Status::FATAL, &what);
    }

    /// For a flush that saw a peer fail: until the callbacks that another thread makes for that have run.
    /// Whoever is inside such a callback itself does not wait for its own end.
    #[cold]
    pub(crate) fn wait_until_told(&self) {
        fence(Ordering::Acquire);
        while self.telling.load(Ordering::Acquire) > 0 && TELLING.get() == 0 {
            std::thread::yield_now();
        }
    }

    /// Runs a callback without counting the operation as done: the provider still holds it.
    fn call_only(&self, f: &Finished, status: Status) {
        if let Some(function) = f.function {
            // SAFETY: as in `deliver`.
            unsafe {
                function(
                    self.owner.load(Ordering::Relaxed),
                    f.tag.endpoint().cast(),
                    f.local_address,
                    f.local_handle,
                    f.context,
                    f.data,
                    status.0,
                );
            }
        }
    }

    /// As [`settle_unattributed_as`](Self::settle_unattributed_as), for failures noticed before.
    #[cold]
    pub(crate) fn settle_unattributed(&self) -> usize {
        self.settle_unattributed_as(Status::ERROR)
    }

    /// Some providers (shm, when cross-memory attach fails) report an error that names no operation.
    /// Every outstanding operation either completes or is one of those that failed so; once as many
    /// are outstanding as have failed, all that are left are the failed ones.
    #[cold]
    pub(crate) fn settle_unattributed_as(&self, status: Status) -> usize {
        let mut guards: Vec<_> = self.contexts.iter().map(|c| c.state.lock()).collect();
        let failed: u32 = guards.iter().map(|s| s.unattributed).sum();
        let outstanding: u32 = self.contexts.iter().map(|c| c.count.outstanding()).sum();
        let ready: usize = guards.iter().map(|s| s.ready.len()).sum();
        if failed == 0 || outstanding != failed || ready != 0 {
            return 0;
        }
        let mut finished: Vec<(usize, Finished)> = Vec::new();
        for (index, state) in guards.iter_mut().enumerate() {
            state.unattributed = 0;
            for record in state.pool.in_use(None) {
                // SAFETY: `in_use` found it in use, and the lock is held.
                finished.push((index, unsafe { state.pool.give_back(record) }));
            }
        }
        // What is not recorded is bare: count it off here, since nobody else knows of it.
        let mut lost = Vec::new();
        {
            let peers = self.lock_peers();
            for peer in peers.known.iter() {
                let endpoint = NonNull::from(peer);
                let mut bare = 0;
                for phase in 0..2 {
                    let recorded = finished
                        .iter()
                        .filter(|(_, f)| {
                            f.tag.endpoint() == endpoint.as_ptr() && f.tag.endpoint_phase() == phase
                        })
                        .count() as u32;
                    let n = peer.count.in_slot(phase).saturating_sub(recorded);
                    peer.count.lower(phase, n, self.threaded);
                    bare += n;
                }
                if bare > 0 {
                    lost.push((endpoint, bare));
                }
            }
        }
        for (index, context) in self.contexts.iter().enumerate() {
            for phase in 0..2 {
                let recorded = finished
                    .iter()
                    .filter(|(i, f)| *i == index && f.tag.context_phase() == phase)
                    .count() as u32;
                let n = context.count.in_slot(phase).saturating_sub(recorded);
                context.count.lower(phase, n, self.threaded);
            }
        }
        drop(guards);
        let what = "the provider reported an error without saying for which operation";
        for (endpoint, n) in lost {
            self.lose(Tag::new(endpoint, 0, 0), n, status, what);
        }
        let count = failed as usize;
        for (index, f) in finished {
            let context: &Context = &self.contexts[index];
            if f.function.is_none() {
                self.lose(f.tag, 1, status, what);
            }
            self.deliver(context, &[f], status);
        }
        self.check_peers();
        count
    }
}
