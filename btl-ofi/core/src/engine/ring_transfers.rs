//! Small puts and gets over shm: made by the target, unless it is slow.
//!
//! A put or get that the kernel copies (`cma`) costs a call into it, of which the bytes are the least part:
//! 0.5 to 1.3 us for a word. A target that makes progress does the same in a fraction of that, once it finds
//! the command in its ring; but one that computes would do it never, and need not, since the kernel can.
//! So a small transfer is *handed over* to the target, by the ring that its peer's atomics use, and *revoked*
//! when no answer came for about as long as the kernel would have taken (`Requester::collect`, in any poll of
//! this process). Which of the two has it is settled by a compare-and-swap (`ring`), so it is made once.
//! After a revocation the kernel makes the next ones at once, more of them each time, until the target
//! answers in time again.
//!
//! **Completion** is as with the kernel: the bytes are there when the target answers, or when the call that made
//! the copy returned. The target need not progress for it; the initiator does, as for any operation.
//!
//! **Larger gets** are made by both sides at once, while the target is quick: it copies fragments into a block of its pool,
//! the initiator out of it, within the call. That takes the kernel's page-wise look-ups out of the way (a page costs it
//! twice what copying it does), and waits for nothing: a fragment that the target began and did not end is read once more,
//! and what the target still does for it touches the payload only. A fragment that the target refuses is a refusal of the get: it
//! knows its regions, and the kernel does not. Puts cannot be left alone like that, for the target
//! would write into the window later, so larger ones are the kernel's. Which of the two ways is quicker depends on the
//! processors, and is found out by timing them (`requester::pace`). The lock is given back after each [`HOLD`] of bytes, with
//! no fragment outstanding: peers are served and completions delivered then, and if a thread waits for the lock, the
//! kernel makes as much of the get before the lock is taken again.
//!
//! **The kernel makes it at once** when another thread has the context, when the ring is full or has no block for it,
//! and when there is no ring. A target that runs and holds what it took, stopped by a signal in between, is waited for like one
//! that owes the answer to an atomic.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::time::Instant;

use libfabric_sys as ffi;
use plugin_api::Status;

use crate::base::lock::Guard;
use crate::engine::context::State;
use crate::engine::post::{Caller, guarded};
use crate::engine::transport::Transport;
use crate::mem::handle::Handle;
use crate::op::record::{Completion, Tag};
use crate::peer::endpoint::{Endpoint, Way};
use crate::sm::requester::{Direction, GetWay, Requester};
use crate::sm::responder::{GET, PUT};
use crate::sm::ring::Command;

/// Most bytes that are handed over: with more, copying them twice costs what the call costs.
pub(crate) const MOST: usize = 8 * 1024;

/// Most bytes of a large get that are copied while the context's lock is held once: some 50 us.
pub(crate) const HOLD: usize = 512 * 1024;

/// A small transfer, checked against its handle.
#[derive(Clone, Copy)]
pub(crate) struct Small {
    direction: Direction,
    local: *mut c_void,
    address: u64,
    key: u64,
    cookie: u64,
    size: usize,
}

/// What became of a get that is not small.
#[derive(Default)]
pub(crate) struct Begun {
    /// Bytes of its beginning that are here: [`HOLD`] at most, and fewer than could be if the target paused.
    pub(crate) got: usize,
    /// The status with which the target refused it.
    pub(crate) refused: Option<Status>,
    /// Whether it is to be [timed](Transport::took), for which way and since when.
    pub(crate) timed: Option<(GetWay, Instant)>,
}

impl Small {
    #[inline]
    pub(crate) fn new(
        direction: Direction,
        local: *mut c_void,
        remote: &Handle,
        address: u64,
        size: usize,
    ) -> Small {
        Small {
            direction,
            local,
            address,
            key: remote.key(),
            cookie: remote.cookie(),
            size,
        }
    }

    #[inline]
    fn command(&self) -> Command {
        Command {
            what: match self.direction {
                Direction::Put => PUT,
                Direction::Get => GET,
            },
            count: self.size as u32,
            payload: 0,
            address: self.address,
            key: self.key,
            cookie: self.cookie,
            value: 0,
            compare: 0,
        }
    }
}

impl Transport {
    /// The lock under which a peer's ring may be used; none if another thread has it, or there is no ring, though
    /// there may be one the next time.
    #[inline(always)]
    fn ring_to(&self, endpoint: NonNull<Endpoint>) -> Option<Guard<'_, State>> {
        let state = self.contexts[0].state.try_lock()?;
        self.ring_under(state, endpoint)
    }

    /// Likewise, once the lock is held.
    #[inline(always)]
    fn ring_under<'a>(
        &'a self,
        state: Guard<'a, State>,
        endpoint: NonNull<Endpoint>,
    ) -> Option<Guard<'a, State>> {
        // SAFETY: the callers vouch for a live endpoint.
        let peer = unsafe { endpoint.as_ref() };
        match peer.way() {
            Way::Ring if peer.failure().is_none() => Some(state),
            Way::Unclaimed => {
                drop(state);
                // What is wrong with the peer, the kernel finds too.
                guarded(|| self.introduce(endpoint).err().unwrap_or(Status::SUCCESS));
                None
            }
            _ => None,
        }
    }

    /// Has the target make the beginning of a get that is not small, while it is quick and, unless this is `later`
    /// in the same get, if it is the quicker way. Nothing that it began is outstanding after that but what is spent.
    ///
    /// # Safety
    /// As for [`hand_over`](Self::hand_over).
    #[inline(never)]
    pub(crate) unsafe fn get_beginning(
        &self,
        endpoint: NonNull<Endpoint>,
        get: &Small,
        later: bool,
    ) -> Begun {
        let mut begun = Begun::default();
        // SAFETY: the caller vouches for a live endpoint.
        let peer = unsafe { endpoint.as_ref() };
        let ring = if later {
            // Others have it for one call each, which is sooner than the kernel is done.
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
        // SAFETY: the way is `Ring`, and the lock is held.
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
        // Two that get from each other serve each other.
        let meanwhile = || channel.attend(self.registrar.table());
        let most = get.size.min(HOLD);
        // SAFETY: the caller vouches for the buffer.
        match unsafe { requester.get_fragments(get.command(), get.local, most, meanwhile) } {
            Ok(got) => begun.got = got,
            Err(status) => begun.refused = Some(status),
        }
        if !requester.is_empty() {
            channel.list(requester);
        }
        begun
    }

    /// Sees to peers and completions in the middle of a large get, without the lock being held. Whether a thread waits
    /// for that.
    #[inline(never)]
    pub(crate) fn let_others_in(&self) -> bool {
        let context = &self.contexts[0];
        let waited_for = context.state.is_waited_for();
        guarded(|| {
            if !context.delivering.load(Ordering::Relaxed) {
                self.poll(context);
            } else if let Some(mut state) = context.state.try_lock()
                && let Some(channel) = &mut state.channel
            {
                // Callbacks run, perhaps this call's own caller: they are not to run inside each other.
                channel.attend(self.registrar.table());
            }
            Status::SUCCESS
        });
        waited_for
    }

    /// A get that was to be timed is over.
    #[cold]
    #[inline(never)]
    pub(crate) fn took(
        &self,
        endpoint: NonNull<Endpoint>,
        size: usize,
        (way, since): (GetWay, Instant),
    ) {
        let time = since.elapsed();
        if let Some(_state) = self.ring_to(endpoint) {
            // SAFETY: the callers vouch for a live endpoint; the way is `Ring`, and the lock is held.
            let requester = unsafe { &mut *Requester::of(endpoint.as_ref()) };
            requester.took(way, size, time);
        }
    }

    /// Hands a transfer over to its target; `None`, with nothing done, if it is for the kernel.
    ///
    /// # Safety
    /// `endpoint` is live, and the local buffer good until completion.
    #[inline(never)]
    pub(crate) unsafe fn hand_over(
        &self,
        endpoint: NonNull<Endpoint>,
        completion: Option<Completion>,
        local_handle: *mut plugin_api::Handle,
        small: &Small,
    ) -> Option<Status> {
        // SAFETY: the caller vouches for a live endpoint.
        let peer = unsafe { endpoint.as_ref() };
        let context = &self.contexts[0];
        let mut state = self.ring_to(endpoint)?;
        // SAFETY: the way is `Ring`, and the lock is held.
        let mut requester = unsafe { &mut *Requester::of(peer) };
        if !requester.tries_small() {
            return None;
        }
        let room = match requester.reserve(small.size, false) {
            Ok(room) => room,
            // Answers may be waiting to be taken, where callbacks do not do so already.
            Err(Status::TEMP_OUT_OF_RESOURCE) if !context.delivering.load(Ordering::Relaxed) => {
                drop(state);
                guarded(|| {
                    self.poll(context);
                    Status::SUCCESS
                });
                state = self.ring_to(endpoint)?;
                // SAFETY: as above.
                requester = unsafe { &mut *Requester::of(peer) };
                requester.reserve(small.size, false).ok()?
            }
            Err(_) => return None,
        };
        let State {
            channel: Some(channel),
            posted,
            ..
        } = &mut *state
        else {
            return None;
        };
        let tag = Tag::new(
            endpoint,
            context.count.raise(self.threaded),
            peer.count.raise(self.threaded),
        );
        let caller = Caller {
            completion,
            local_address: small.local,
            local_handle,
        };
        // SAFETY: the caller vouches for the buffer.
        unsafe {
            let finished = caller.finished(tag);
            requester.transfer(
                small.direction,
                small.command(),
                small.local,
                room,
                finished,
            );
        }
        channel.list(requester);
        *posted += 1;
        drop(state);
        Some(Status::SUCCESS)
    }

    /// Has the target make a transfer of any size that nobody else can make.
    ///
    /// # Safety
    /// As for [`hand_over`](Self::hand_over); puts and gets to the peer are [`Copies::Ring`](crate::peer::endpoint::Copies::Ring).
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn leave_to_target(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        transfer: &Small,
    ) -> Status {
        // SAFETY: the caller vouches for a live endpoint.
        let peer = unsafe { endpoint.as_ref() };
        let context = &self.contexts[0];
        let mut state = context.state.lock();
        if let Some(status) = peer.failure() {
            return status;
        }
        let State {
            channel: Some(channel),
            posted,
            again,
            ..
        } = &mut *state
        else {
            return Status::ERROR;
        };
        // SAFETY: the way is `Ring`, as it is with `Copies::Ring`, and the lock is held.
        let requester = unsafe { &mut *Requester::of(peer) };
        if let Err(status) = requester.reserve_queue() {
            *again += 1;
            let count = *again;
            drop(state);
            let rc = match status {
                Status::TEMP_OUT_OF_RESOURCE => ffi::FI_EAGAIN,
                _ => ffi::FI_ENOMEM,
            };
            return self.refused(endpoint, context, -(rc as isize), count);
        }
        let tag = Tag::new(
            endpoint,
            context.count.raise(self.threaded),
            peer.count.raise(self.threaded),
        );
        let finished = caller.finished(tag);
        let local = (transfer.local, transfer.size);
        // SAFETY: the caller vouches for the buffer.
        unsafe { requester.queue(transfer.direction, transfer.command(), local, finished) };
        channel.list(requester);
        *posted += 1;
        drop(state);
        self.poll_if_many(context);
        Status::SUCCESS
    }
}
