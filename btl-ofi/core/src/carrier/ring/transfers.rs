//! Ring puts and ring gets between processes of one node: transfers that the target executes, unless it is slow.
//!
//! A CMA put or get costs a system call, most of it independent of the size: 0.5 to 1.3 us for a word. A target
//! that makes progress executes the same transfer in a fraction of that time, once it finds the command in its
//! ring. A target that computes makes no progress, but CMA does not need it to. So a small put or get is first
//! posted to the target's ring, the one that atomics use. The transfer is *revoked* if no answer comes for about as long
//! as CMA would have taken (`Requester::collect`, in any poll of this process), and then made by CMA. A
//! compare-and-swap on the slot (`sm::ring`) decides between target and requester, so the transfer is made
//! once. After a revocation the next transfers use CMA directly, with a growing backoff, until the target
//! answers in time again.
//!
//! **Completion** is as with CMA: the bytes are in place when the target answers or the copying call returns.
//! The target need not make progress for such a transfer. The origin must, as for any operation.
//!
//! **Large gets** use both sides at once while the target is quick: within the call, the target copies
//! fragments into a block of its pool, and the origin copies them out of it. This avoids the kernel's look-up
//! per page, which costs twice as much as copying the page. The origin never waits: it reads a fragment
//! by CMA if the target began but did not finish it, and the target's late writes touch the payload only. If
//! the target refuses a fragment, the get fails, because the target knows its regions and the kernel does not.
//! Puts cannot do this, because the target would write to the window late; large puts use CMA. The faster way of a get
//! depends on the processors; autotune measures it (`sm::requester`). The lock is released after
//! each [`BYTES_PER_LOCK`] bytes, with no fragment outstanding, to serve peers and deliver completions. If a thread waits
//! for the lock, the next [`BYTES_PER_LOCK`] bytes are read by CMA before the lock is taken again.
//!
//! **CMA is used from the start** when another thread holds the context, when the ring is full or has no free block,
//! and when there is no ring. A target that is stopped by a signal while it holds a command is waited for, as
//! for the answer to an atomic.

use std::ptr::NonNull;
use std::time::Instant;

use libfabric_sys as ffi;
use plugin_api::Status;

use crate::base::guarded::guarded;
use crate::base::lock::Guard;
use crate::core::context::State;
use crate::core::state::Core;
use crate::op::request::{Caller, Request};
use crate::peer::endpoint::Endpoint;
use crate::peer::route::Atomics;
use crate::sm::channel::Channel;
use crate::sm::requester::{GetWay, Requester};

/// Maximum bytes of a ring put or ring get. Above this size, copying twice costs as much as the
/// system call.
pub(crate) const MOST: usize = 8 * 1024;

/// Maximum bytes of a large get that are copied under one hold of the lock: about 50 us.
pub(crate) const BYTES_PER_LOCK: usize = 512 * 1024;

/// Outcome of the first part of a large get.
#[derive(Default)]
pub(crate) struct Begun {
    /// Bytes received, at most [`BYTES_PER_LOCK`]; fewer than requested if the target paused.
    pub(crate) got: usize,
    /// The target's status, if it refused the get.
    pub(crate) refused: Option<Status>,
    /// The path and the start time, if the get must be [timed](Transport::record_time) for autotune.
    pub(crate) timed: Option<(GetWay, Instant)>,
}

impl Core {
    /// Locks the context to use a peer's ring. Returns `None` if another thread holds the lock, or if the peer
    /// has no ring yet.
    #[inline(always)]
    fn ring_to(&self, endpoint: NonNull<Endpoint>) -> Option<Guard<'_, State>> {
        let state = self.contexts[0].state.try_lock()?;
        self.ring_under(state, endpoint)
    }

    /// Checks under the lock that the peer has a usable ring; otherwise releases the lock.
    #[inline(always)]
    fn ring_under<'a>(
        &'a self,
        state: Guard<'a, State>,
        endpoint: NonNull<Endpoint>,
    ) -> Option<Guard<'a, State>> {
        // SAFETY: the callers guarantee that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        match peer.atomics() {
            Atomics::Ring if peer.failure().is_none() => Some(state),
            Atomics::Unclaimed => {
                drop(state);
                // A later CMA call finds the peer's actual problem.
                guarded(|| self.claim_ring(endpoint).err().unwrap_or(Status::SUCCESS));
                None
            }
            _ => None,
        }
    }

    /// Gets the first part of a large get with the target's help, while the target answers fast. The first
    /// call of a get (`later` is false) does so only if autotune finds this path faster. After the return,
    /// only revoked or held fragments are outstanding.
    ///
    /// # Safety
    /// `endpoint` is live, and the local buffer is valid until completion.
    #[inline(never)]
    pub(crate) unsafe fn get_beginning(
        &self,
        endpoint: NonNull<Endpoint>,
        get: &Request,
        later: bool,
    ) -> Begun {
        let mut begun = Begun::default();
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let ring = if later {
            // Waits for the lock, because other threads hold it for one call each, which takes less time
            // than CMA.
            self.ring_under(self.contexts[0].state.lock(), endpoint)
        } else {
            self.ring_to(endpoint)
        };
        let Some(mut state) = ring else {
            return begun;
        };
        let Some(channel) = &mut state.channel else {
            return begun;
        };
        // SAFETY: the peer's atomics go by a ring, so it has a requester, and the lock is held.
        let requester = unsafe { &mut *Requester::of(peer) };
        if !requester.tries_fragments() {
            return begun;
        }
        if !later {
            let (way, timed) = requester.get_way(get.size);
            begun.timed = timed.then(|| (way, Instant::now()));
            if way == GetWay::Kernel {
                return begun;
            }
        }
        // Serves requests of peers meanwhile, because two processes may get from each other.
        let meanwhile = || channel.attend(self.registrar.table());
        let most = get.size.min(BYTES_PER_LOCK);
        // SAFETY: the caller guarantees that the buffer is valid until completion.
        match unsafe { requester.get_fragments(get, most, meanwhile) } {
            Ok(got) => begun.got = got,
            Err(status) => begun.refused = Some(status),
        }
        if !requester.is_empty() {
            channel.list(requester);
        }
        begun
    }

    /// Serves peers and delivers completions in the middle of a large get, without holding the lock.
    /// Returns whether a thread waits for the lock.
    #[inline(never)]
    pub(crate) fn serve_without_lock(&self) -> bool {
        let context = &self.contexts[0];
        let waited_for = context.state.is_waited_for();
        guarded(|| {
            if !self.must_not_poll(context) {
                self.poll(context);
            } else if let Some(mut state) = context.state.try_lock()
                && let Some(channel) = &mut state.channel
            {
                // Callbacks must not nest, but a running callback may have called this get.
                channel.attend(self.registrar.table());
            }
            Status::SUCCESS
        });
        waited_for
    }

    /// Records the time of a timed get.
    #[cold]
    #[inline(never)]
    pub(crate) fn record_time(
        &self,
        endpoint: NonNull<Endpoint>,
        size: usize,
        (way, since): (GetWay, Instant),
    ) {
        let time = since.elapsed();
        if let Some(_state) = self.ring_to(endpoint) {
            // SAFETY: the callers guarantee that `endpoint` is live; the peer's atomics go by a ring, so it has a
            // requester, and the lock is held.
            let requester = unsafe { &mut *Requester::of(endpoint.as_ref()) };
            requester.record_time(way, size, time);
        }
    }

    /// Executes the commands of peers before a transfer by CMA. Such a transfer is complete at once, so its flush makes no
    /// progress. Two processes that only get from each other would never answer a command, and each would use CMA for ever.
    #[inline(never)]
    pub(super) fn serve_before_copy(&self, channel: &mut Channel) {
        guarded(|| {
            channel.serve(self.registrar.table());
            Status::SUCCESS
        });
    }

    /// Posts a ring put or ring get. Returns `None`, before side effects, if the caller must use CMA. With
    /// `last`, the caller uses CMA after `None` and does not call again.
    ///
    /// # Safety
    /// `endpoint` is live, and the local buffer is valid until completion.
    pub(crate) unsafe fn try_ring_transfer(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        (small, last): (&Request, bool),
    ) -> Option<Status> {
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let context = &self.contexts[0];
        let mut state = self.ring_to(endpoint)?;
        // SAFETY: the peer's atomics go by a ring, so it has a requester, and the lock is held.
        let mut requester = unsafe { &mut *Requester::of(peer) };
        if !requester.tries_ring(|| last) {
            if let Some(channel) = &mut state.channel {
                self.serve_before_copy(channel);
            }
            return None;
        }
        let room = match requester.reserve(small.size, false) {
            Ok(room) => room,
            // Answers that were not read yet may free room. If callbacks run, their poll reads the answers.
            Err(Status::TEMP_OUT_OF_RESOURCE) if !self.must_not_poll(context) => {
                drop(state);
                guarded(|| {
                    self.poll(context);
                    Status::SUCCESS
                });
                state = self.ring_to(endpoint)?;
                // SAFETY: the peer's atomics go by a ring, so it has a requester, and the lock is held again.
                requester = unsafe { &mut *Requester::of(peer) };
                requester.reserve(small.size, false).ok()?
            }
            Err(_) => return None,
        };
        let State {
            channel: Some(channel),
            ..
        } = &mut *state
        else {
            return None;
        };
        let tag = self.count_in_ring(context, peer, small.size);
        // SAFETY: the caller guarantees that the buffer is valid until completion.
        unsafe { requester.transfer(small, room, caller.finished(tag)) };
        channel.list(requester);
        drop(state);
        Some(Status::SUCCESS)
    }

    /// Posts a transfer of any size to the target if neither CMA nor the provider can make it.
    ///
    /// # Safety
    /// `endpoint` is live, and the local buffer is valid until completion; puts and gets to the peer are
    /// [`Transfers::Ring`](crate::peer::endpoint::Transfers::Ring).
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn queue_at_target(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        transfer: &Request,
    ) -> Status {
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let context = &self.contexts[0];
        let mut state = context.state.lock();
        if let Some(status) = peer.failure() {
            return status;
        }
        let State {
            channel: Some(channel),
            counts,
            ..
        } = &mut *state
        else {
            return Status::ERROR;
        };
        // SAFETY: with `Transfers::Ring` the peer's atomics go by a ring, so it has a requester, and the lock is held.
        let requester = unsafe { &mut *Requester::of(peer) };
        if let Err(status) = requester.reserve_queue() {
            counts.again += 1;
            let count = counts.again;
            drop(state);
            let rc = match status {
                Status::TEMP_OUT_OF_RESOURCE => ffi::FI_EAGAIN,
                _ => ffi::FI_ENOMEM,
            };
            return self.refused(endpoint, context, -(rc as isize), count);
        }
        let tag = self.count_in_ring(context, peer, transfer.size);
        // SAFETY: the caller guarantees that the buffer is valid until completion.
        unsafe { requester.queue(transfer, caller.finished(tag)) };
        channel.list(requester);
        drop(state);
        self.poll_if_many(context);
        Status::SUCCESS
    }
}
