//! Small puts and gets over shm: made by the target, unless it is slow.
//!
//! A put or get that the kernel copies (`direct`) costs a call into it, of which the bytes are the least part:
//! 0.5 to 1.3 us for a word. A target that makes progress does the same in a fraction of that, once it finds
//! the command in its ring; but one that computes would do it never, and need not, since the kernel can.
//! So a small transfer is *handed over* to the target, by the ring that its peer's atomics use, and *revoked*
//! when no answer came for about as long as the kernel would have taken (`Outbound::collect`, in any poll of
//! this process). Which of the two has it is settled by a compare-and-swap (`ring`), so it is made once.
//! After a revocation the kernel makes the next ones at once, more of them each time, until the target
//! answers in time again.
//!
//! **Completion** is as with the kernel: the bytes are there when the target answers, or when the call that made
//! the copy returned. The target need not progress for it; the initiator does, as for any operation.
//!
//! **The kernel makes it at once** when another thread has the context, when the ring is full, and when there is
//! no ring. A target that runs and holds what it took, stopped by a signal in between, is waited for like one
//! that owes the answer to an atomic.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use plugin_api::Status;

use crate::address::{Handle, Target};
use crate::context::State;
use crate::endpoint::{Endpoint, Way};
use crate::inbound::{GET, PUT};
use crate::outbound::Direction;
use crate::post::{Caller, guarded};
use crate::record::{Completion, Tag};
use crate::ring::Command;
use crate::transport::Transport;

/// Most bytes that are handed over: with more, copying them twice costs what the call costs.
pub(crate) const MOST: usize = 8 * 1024;

/// A small transfer, checked against its handle.
#[derive(Clone, Copy)]
pub(crate) struct Small {
    direction: Direction,
    local: *mut c_void,
    target: Target,
    mark: u64,
    size: usize,
}

impl Small {
    #[inline]
    pub(crate) fn new(
        direction: Direction,
        local: *mut c_void,
        target: Target,
        remote: &Handle,
        size: usize,
    ) -> Small {
        Small {
            direction,
            local,
            target,
            mark: remote.mark(),
            size,
        }
    }
}

impl Transport {
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
        let mut state = context.state.try_lock()?;
        match peer.way() {
            Way::Ring if peer.failure().is_none() => {}
            Way::Unclaimed => {
                drop(state);
                // What is wrong with the peer, the kernel finds too.
                guarded(|| self.introduce(endpoint).err().unwrap_or(Status::SUCCESS));
                return None;
            }
            _ => return None,
        }
        // SAFETY: the way is `Ring`, and the lock is held.
        let mut outbound = unsafe { &mut *peer.outbound() };
        if !outbound.is_trusted() {
            return None;
        }
        let room = match outbound.reserve(small.size) {
            Ok(room) => room,
            // Answers may be waiting to be taken, where callbacks do not do so already.
            Err(_) if !context.delivering.load(Ordering::Relaxed) => {
                drop(state);
                guarded(|| {
                    self.poll(context);
                    Status::SUCCESS
                });
                state = context.state.try_lock()?;
                if peer.failure().is_some() || peer.way() != Way::Ring {
                    return None;
                }
                // SAFETY: as above.
                outbound = unsafe { &mut *peer.outbound() };
                outbound.reserve(small.size).ok()?
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
            context.tally.raise(self.threaded),
            peer.tally.raise(self.threaded),
        );
        let caller = Caller {
            completion,
            local_address: small.local,
            local_handle,
        };
        let command = Command {
            what: match small.direction {
                Direction::Put => PUT,
                Direction::Get => GET,
            },
            count: small.size as u32,
            payload: 0,
            address: small.target.address,
            key: small.target.key,
            mark: small.mark,
            value: 0,
            compare: 0,
        };
        // SAFETY: the caller vouches for the buffer.
        unsafe {
            let finished = caller.finished(tag);
            outbound.transfer(small.direction, command, small.local, room, finished);
        }
        channel.list(outbound);
        *posted += 1;
        drop(state);
        Some(Status::SUCCESS)
    }
}
