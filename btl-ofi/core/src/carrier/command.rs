//! Atomics as commands: to the peer's ring, as a message, or executed here. Ring puts and ring gets use the same rings
//! (`ring::transfers`).
//!
//! The requester (`sm::requester`) writes a command into the target's segment (`sm::ring`, `sm::segment`). The target's
//! progress (`sm::server`, `op::responder`) executes it with atomic instructions and writes the answer to the same slot. The
//! requester's progress reads the answer (`ring::poll`). This takes half a microsecond under every provider; shm's own
//! atomics take about 1 us, wait behind those outstanding at a dead process, and crash as updates (`fabric::policy`).
//!
//! **Route.** `peer::route` says to which peers atomics go by a ring. The first one settles it: if the segment cannot be
//! opened or has no free ring, all atomics to that peer go as those to other nodes. The two never mix at one peer, so atomics
//! stay ordered. Only atomics that both the provider and `op::element` support are advertised, so both support all of
//! them.
//!
//! **Atomicity.** A process's memory is changed by commands in its segment, by its own atomics to itself, and by those that
//! its provider executes for others. All three change each element by one atomic instruction, so they exclude each other,
//! whichever route each origin takes, whichever threads execute them. Peers of providers for which that is not known have
//! no such route.
//!
//! **Order.** A ring is first in, first out, and an origin has one ring at each target.
//!
//! **Failures.** A dead target does not answer. When it is given up, the operations in its ring are reported
//! and forgotten. Only this process writes their buffers, so this affects no other peer. A target that closes
//! its transport says so in its segment. The ring of a dead origin is executed up to the last published command
//! and stays taken.

use std::ffi::c_void;
use std::ptr::NonNull;

use libfabric_sys as ffi;
use plugin_api::Status;
use plugin_api::counters::Carrier;

use crate::base::lock::Guard;
use crate::core::context::{Context, State};
use crate::core::state::Core;
use crate::op::atomic::Raise;
use crate::op::element::Elements;
use crate::op::request::{Caller, Operands, Request};
use crate::op::responder;
use crate::peer::endpoint::Endpoint;
use crate::peer::route::Atomics;
use crate::sm::requester::Requester;

impl Core {
    /// Posts an atomic to a peer's ring, or as a message. `None`, before side effects, for anything unusual: the caller then calls
    /// [`command`](Self::command).
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
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let context = &self.contexts[0];
        let mut state = context.state.lock();
        // Checked under the lock, because the ring of a failed peer is emptied under it.
        if peer.atomics() != Atomics::Ring || peer.failure().is_some() {
            drop(state);
            return match peer.atomics() {
                // SAFETY: the caller guarantees that `endpoint` is live and that the buffers are valid until completion.
                Atomics::Message => unsafe { self.try_tell(endpoint, caller, atomic) },
                _ => None,
            };
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
        self.count_by_first(peer, Carrier::Ring, atomic.size);
        let tag = context.raise(peer, self.setup.threaded);
        let finished = caller.finished(tag);
        // SAFETY: the caller guarantees that the buffers are valid until completion.
        unsafe { requester.post(atomic, room, finished) };
        channel.list(requester);
        drop(state);
        self.poll_after_post(context);
        Some(Status::SUCCESS)
    }

    /// Posts an atomic to a peer through its ring, or executes it if the peer is this transport. `None` if the
    /// provider executes the peer's atomics.
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
        let context = &self.contexts[0];
        loop {
            // SAFETY: the caller guarantees that `endpoint` is live and that the buffers are valid until completion.
            let posted = unsafe { self.try_command(endpoint, caller, atomic) };
            if posted.is_some() {
                return posted;
            }
            let mut state = context.state.lock();
            if let Some(status) = peer.failure() {
                return Some(status);
            }
            match peer.atomics() {
                Atomics::Fabric => return None,
                Atomics::Message => {
                    drop(state);
                    // SAFETY: the caller guarantees that `endpoint` is live and that the buffers are valid until
                    // completion.
                    return Some(unsafe { self.tell(endpoint, caller, atomic) });
                }
                Atomics::Own => {
                    // SAFETY: the caller guarantees that `endpoint` is live and that the buffers are valid.
                    return Some(unsafe { self.perform(endpoint, state, caller, atomic) });
                }
                Atomics::Unclaimed => {
                    drop(state);
                    if let Err(status) = self.claim_ring(endpoint) {
                        return Some(status);
                    }
                }
                Atomics::Ring => {
                    // SAFETY: the peer has a requester, and the lock is held.
                    let requester = unsafe { &mut *Requester::of(peer) };
                    let Err(status) = requester.reserve(atomic.size, true) else {
                        // Another thread has made room meanwhile.
                        continue;
                    };
                    state.counts.again += 1;
                    let count = state.counts.again;
                    drop(state);
                    return Some(self.refused_by_ring(endpoint, context, status, count));
                }
            }
        }
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

    /// Executes an atomic to this transport itself.
    ///
    /// # Safety
    /// `endpoint` is live; the buffers of `atomic` are valid.
    unsafe fn perform(
        &self,
        endpoint: NonNull<Endpoint>,
        mut state: Guard<'_, State>,
        caller: &Caller,
        atomic: &Request,
    ) -> Status {
        // Before side effects: the caller repeats an operation that was refused.
        if caller.completion.is_some() && state.ready.try_reserve(1).is_err() {
            return Status::OUT_OF_RESOURCE;
        }
        let value;
        let operands: *const c_void = match atomic.operands {
            Operands::Value(v) => {
                value = v;
                (&raw const value).cast()
            }
            Operands::Buffer(buffer) => buffer,
        };
        let Some((kind, datatype, op)) = responder::decode(atomic.command.what) else {
            return Status::NOT_SUPPORTED;
        };
        let elements = Elements {
            datatype,
            op,
            count: atomic.command.count as usize,
            at: std::ptr::with_exposed_provenance_mut(atomic.command.address as usize),
            operands: operands.cast(),
            compare: atomic.command.compare,
            results: atomic.result.cast(),
        };
        {
            let regions = self.registrar.regions();
            let Some(known) = regions.find(atomic.command.key, atomic.command.cookie) else {
                return Status::PERM;
            };
            // SAFETY: the caller guarantees that the buffers are valid; the lock on the regions keeps the
            // target registered.
            let done = unsafe { responder::perform(known, kind, &elements) };
            if let Err(status) = done {
                return status;
            }
        }
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let context = &self.contexts[0];
        if caller.completion.is_some() {
            let tag = context.raise(peer, self.setup.threaded);
            state.ready.push(caller.finished(tag));
        }
        let is_full = self.is_full_of_ready(&state);
        drop(state);
        self.count_carried(
            self.context().share,
            (peer, Carrier::Copy, atomic.size),
            self.setup.threaded,
        );
        self.count_direct();
        if is_full {
            self.run_ready(context);
        }
        Status::SUCCESS
    }

    /// Raises the counter, whichever way the peer's atomics go.
    ///
    /// # Safety
    /// `endpoint` is live.
    pub(crate) unsafe fn raise(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        raise: &Raise,
    ) -> Status {
        // SAFETY: the caller guarantees that `endpoint` is live; the operand is passed by value, and there is no result.
        unsafe {
            if endpoint.as_ref().atomics() != Atomics::Fabric
                && let Some(status) = self.command(endpoint, caller, &raise.request())
            {
                return status;
            }
            let operands = Operands::Value(raise.add);
            self.update(endpoint, caller, &raise.remote, operands)
        }
    }
}
