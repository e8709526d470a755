//! Atomics as commands. By the route of the peer's atomics, a command goes to the peer's ring, travels as a message, or is
//! executed by this thread.
//!
//! **Route.** `peer::route` decides for which peers atomics use a ring. The first atomic fixes the route: if the segment cannot
//! be opened or has no free ring, all atomics to that peer take the route to other nodes. One peer never uses both routes, so
//! atomics stay ordered. The transport advertises only atomics that both the provider and `op::element` support, so every route
//! supports all advertised atomics.
//!
//! **Atomicity.** Three kinds of operations change a process's memory: commands in its segment, its own atomics to itself,
//! and atomics that its provider executes for other processes. All three change each element by one atomic instruction, so
//! they exclude each other for every route and every executing thread. Atomics go by a provider only if it is known to
//! change elements this way.

use std::ptr::NonNull;

use plugin_api::Status;

use crate::engine::transport::Transport;
use crate::op::request::{Atomic, Caller, Request};
use crate::peer::endpoint::Endpoint;
use crate::peer::route::Atomics;

impl Transport {
    /// Posts an atomic to a peer's ring or as a message, or executes it if the peer is this transport. Returns `None`,
    /// before side effects, for anything unusual; the caller then calls [`command`](Self::command).
    ///
    /// # Safety
    /// `endpoint` is live; the buffers of `atomic` are valid until completion.
    #[inline(never)]
    pub(crate) unsafe fn try_command(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        atomic: &Request,
    ) -> Option<Status> {
        // SAFETY: the caller guarantees that `endpoint` is live and that the buffers are valid until completion.
        unsafe {
            // The ring comes first: most callers have one, and most messages joined a batch before they could
            // reach this call.
            let posted = self.try_ring_command(endpoint, caller, atomic);
            if posted.is_some() {
                return posted;
            }
            match endpoint.as_ref().atomics() {
                Atomics::Message => self.try_tell(endpoint, caller, atomic),
                Atomics::Own => {
                    let status = self.perform(endpoint, caller, atomic);
                    status.is_ok().then_some(status)
                }
                _ => None,
            }
        }
    }

    /// Posts an atomic to a peer by the route of its atomics, or executes it if the peer is this transport. Returns
    /// `None` if the provider executes the peer's atomics.
    ///
    /// # Safety
    /// `endpoint` is live; the buffers of `atomic` are valid until completion.
    pub(crate) unsafe fn command(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        atomic: &Request,
    ) -> Option<Status> {
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        loop {
            if let Some(status) = peer.failure() {
                return Some(status);
            }
            // SAFETY: the caller guarantees that `endpoint` is live and that the buffers are valid until completion.
            unsafe {
                match peer.atomics() {
                    Atomics::Fabric => return None,
                    Atomics::Message => return Some(self.tell(endpoint, caller, atomic)),
                    Atomics::Own => return Some(self.perform(endpoint, caller, atomic)),
                    Atomics::Unclaimed => {
                        if let Err(status) = self.claim_ring(endpoint) {
                            return Some(status);
                        }
                    }
                    Atomics::Ring => {
                        let posted = self.try_command(endpoint, caller, atomic);
                        let answer = posted.or_else(|| self.ring_is_full(endpoint, atomic.size));
                        if answer.is_some() {
                            return answer;
                        }
                    }
                }
            }
        }
    }

    /// Posts a checked atomic by the route of the peer's atomics.
    ///
    /// # Safety
    /// `endpoint` is live; the buffers of `atomic` are valid until completion.
    pub(crate) unsafe fn atomic_by_route(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        atomic: &Atomic,
    ) -> Status {
        // SAFETY: the caller guarantees that `endpoint` is live and that the buffers are valid until completion.
        unsafe {
            if endpoint.as_ref().atomics() != Atomics::Fabric
                && let Some(status) = self.command(endpoint, caller, &atomic.request)
            {
                return status;
            }
            self.post_atomic(endpoint, caller, atomic)
        }
    }
}
