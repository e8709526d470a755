//! Closing the endpoints under outstanding operations, so that the provider leaves their buffers alone.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use plugin_api::Status;

use crate::base::lock::Guard;
use crate::core::context::{State, never_read};
use crate::core::failures::Reporting;
use crate::core::state::Core;
use crate::op::record::Record;
use crate::peer::endpoint::Endpoint;

impl Core {
    /// Closes the endpoints. Returns the peers that the provider reached and that had not failed. All contexts are locked
    /// by `guards`.
    pub(crate) fn close_endpoints(
        &self,
        guards: &mut [Guard<'_, State>],
    ) -> Vec<NonNull<Endpoint>> {
        let peers = self.lock_peers();
        self.failures.broken.store(true, Ordering::Relaxed);
        let reached_so = peers.known.iter().filter(|p| p.uses_provider());
        let others = reached_so.filter(|p| p.fail(Status::FATAL));
        let others = others.map(NonNull::from).collect();
        for state in guards {
            state.read = never_read;
            if let Some(messages) = &mut state.messages {
                messages.close();
            }
        }
        // The device has logged the error.
        let refused = self.device.close_endpoints().is_err();
        self.failures
            .refused_to_close
            .store(refused, Ordering::Relaxed);
        others
    }

    pub(crate) fn lock_contexts(&self) -> Vec<Guard<'_, State>> {
        self.contexts.iter().map(|c| c.state.lock()).collect()
    }

    /// Whether operations to a peer are at the provider. Compound operations and operations on device memory may have no
    /// part there: they wait for room or for a copy. All contexts are locked by `guards`.
    pub(crate) fn is_at_provider(&self, peer: &Endpoint, guards: &[Guard<'_, State>]) -> bool {
        let whole = |state: &Guard<'_, State>| {
            let records = state.pool.in_use(Some(NonNull::from(peer)));
            let whole = records
                .into_iter()
                // SAFETY: `in_use` found the records in use, and the lock is held.
                .filter(|r| unsafe { Record::tag(*r) }.is_whole());
            whole.count() as u32
        };
        // Compound and staged operations are counted in addition to their parts. If such an operation ends meanwhile, its
        // record is returned before its count is lowered. So the provider may seem to have one operation too many, but
        // never one too few.
        let whole: u32 = guards.iter().map(whole).sum();
        peer.total().outstanding() > whole
    }

    /// Stops the provider from accessing the buffers of operations that are outstanding at a peer. No provider can drop the
    /// operations of one peer (not even if the peer's address is removed), so this closes the endpoints. This also
    /// disconnects all other peers that the provider reaches; they are returned. Returns `None` if the provider has no
    /// operation to this peer.
    pub(crate) fn close_endpoints_for(&self, peer: &Endpoint) -> Option<Vec<NonNull<Endpoint>>> {
        // Every post holds one of these locks, and checks for the failure under the lock.
        let mut guards = self.lock_contexts();
        let is_there = self.is_at_provider(peer, &guards);
        if !is_there || self.failures.broken.load(Ordering::Relaxed) {
            return None;
        }
        Some(self.close_endpoints(&mut guards))
    }

    /// Closes this transport, which is a rail of another transport: the provider then no longer accesses memory. The
    /// operations of this transport end as failed.
    #[cold]
    pub(crate) fn close_rail(&self, why: &str) {
        let _reporting = Reporting::begin(&self.failures);
        let peers = {
            let mut guards: Vec<_> = self.contexts.iter().map(|c| c.state.lock()).collect();
            if guards.iter().all(|state| state.is_closed()) {
                return;
            }
            self.close_endpoints(&mut guards)
        };
        // No flush may wait for operations that will never complete.
        self.failures.degraded.store(true, Ordering::Release);
        tracing::warn!("{}it is not used any more: {why}", self.failures.of);
        for endpoint in peers {
            self.report_outstanding(endpoint, (Status::FATAL, why), |_| false);
        }
    }
}
