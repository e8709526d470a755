//! Atomics through a ring. Ring puts and ring gets use the same rings (`transfers`).
//!
//! The requester (`sm::requester`) writes a command into the target's segment (`sm::ring`, `sm::segment`). The target's
//! progress (`sm::server`, `op::responder`) executes it with atomic instructions and writes the answer to the same slot. The
//! requester's progress reads the answer (`poll`). This takes half a microsecond under every provider; shm's own
//! atomics take about 1 us, wait behind those outstanding at a dead process, and crash as updates (`fabric::policy`).
//!
//! **Order.** A ring is first in, first out, and an origin has one ring at each target.
//!
//! **Failures.** A dead target does not answer. When the target fails, the operations in its ring fail, too. Only this process
//! writes their buffers, so this affects no other peer. A target that closes its transport says so in its segment. The ring of
//! a dead origin is executed up to the last published command and stays taken.

use std::ptr::NonNull;

use libfabric_sys as ffi;
use plugin_api::Status;

use crate::core::context::{Context, State};
use crate::core::state::Core;
use crate::op::request::{Caller, Request};
use crate::peer::endpoint::Endpoint;
use crate::peer::route::Atomics;
use crate::sm::requester::Requester;
use crate::sm::ring::Command;

impl Core {
    /// Posts an atomic to a peer's ring. Returns `None`, before side effects, if the peer's atomics do not go by its ring,
    /// if the peer has failed, or if the ring has no room.
    ///
    /// # Safety
    /// `endpoint` is live; the buffers of `atomic` are valid until completion.
    #[inline(always)]
    pub(crate) unsafe fn try_ring_command(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        atomic: &Request,
    ) -> Option<Status> {
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let context = &self.contexts[0];
        let mut state = context.state.lock();
        // The check is under the lock, because the ring of a failed peer is emptied under it.
        if peer.atomics() != Atomics::Ring || peer.failure().is_some() {
            return None;
        }
        let State {
            channel: Some(channel),
            ..
        } = &mut *state
        else {
            return None;
        };
        // SAFETY: the peer's atomics go by a ring, so it has a requester, and the lock is held.
        let requester = unsafe { &mut *Requester::of(peer) };
        let room = requester.reserve(atomic.size, true).ok()?;
        let tag = self.count_in_ring(context, peer, atomic.size);
        // The command is built before `finished`, so that the compiler saves fewer registers.
        let command = Command::of(&atomic.command);
        let finished = caller.finished(tag);
        // SAFETY: the caller guarantees that the buffers are valid until completion.
        unsafe { requester.post(command, atomic.operands, room, atomic.result, finished) };
        channel.list(requester);
        drop(state);
        self.poll_after_post(context);
        Some(Status::SUCCESS)
    }

    /// The status of an atomic that found its peer's ring full. Returns `None` if another thread has made room
    /// meanwhile.
    pub(crate) fn ring_is_full(&self, endpoint: NonNull<Endpoint>, size: usize) -> Option<Status> {
        let context = &self.contexts[0];
        let mut state = context.state.lock();
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        if peer.atomics() != Atomics::Ring || peer.failure().is_some() {
            return None;
        }
        // SAFETY: the peer's atomics go by a ring, so it has a requester, and the lock is held.
        let requester = unsafe { &mut *Requester::of(peer) };
        let status = requester.reserve(size, true).err()?;
        state.counts.again += 1;
        let count = state.counts.again;
        drop(state);
        Some(self.refused_by_ring(endpoint, context, status, count))
    }

    /// The status of an operation that found no room in a ring.
    pub(crate) fn refused_by_ring(
        &self,
        endpoint: NonNull<Endpoint>,
        context: &Context,
        status: Status,
        count: u64,
    ) -> Status {
        let rc = match status {
            Status::TEMP_OUT_OF_RESOURCE => -(ffi::FI_EAGAIN as isize),
            _ => -(ffi::FI_ENOMEM as isize),
        };
        self.refused(endpoint, context, rc, count)
    }
}
