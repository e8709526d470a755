//! The fast path of ring puts and ring gets (`transfers`): transfers of at most a word are posted here, in one function
//! with the door's, and `transfers` posts all others.

use std::ffi::c_void;
use std::ptr::NonNull;

use plugin_api::counters::Carrier;
use plugin_api::{CompletionFn, Status};

use crate::core::state::Core;
use crate::mem::handle::Handle;
use crate::op::completion::Completion;
use crate::op::request::{Caller, Request};
use crate::peer::endpoint::Endpoint;
use crate::peer::share::Share;
use crate::sm::requester::Requester;

/// The result of a try to transfer a word.
enum Tried {
    Posted,
    /// Nothing was done; CMA must make the transfer.
    LeftToKernel,
    /// Nothing was done: the ring is full or must be claimed, or the peer has failed.
    Unusual,
}

impl Core {
    /// The fast path of a put (`PUT`) or get through the ring, of at most
    /// [`MOST`](crate::carrier::ring::transfers::MOST) bytes. Returns `None`, before side effects, if the
    /// caller must use CMA.
    ///
    /// # Safety
    /// `endpoint` is live, and the local buffer is valid until completion; `T` is the transport's threading.
    #[inline(always)]
    pub(crate) unsafe fn quick_ring_transfer<const T: bool, const PUT: bool>(
        &self,
        endpoint: NonNull<Endpoint>,
        local: *mut c_void,
        (remote, address): (&Handle, u64),
        size: usize,
        completion: Option<Completion>,
    ) -> Option<Status> {
        let (function, context, data) = Completion::parts(completion);
        // SAFETY: the caller guarantees the same conditions.
        unsafe {
            if size <= size_of::<u64>() {
                let to = (remote, address);
                match self.ring_word::<T, PUT>(endpoint, local, to, size, completion) {
                    Tried::Posted => return Some(Status::SUCCESS),
                    Tried::LeftToKernel => return None,
                    Tried::Unusual => {}
                }
            }
            self.ring_block::<PUT>(
                endpoint, local, remote, address, size, function, context, data,
            )
        }
    }

    /// Posts a put or get of at most a word.
    ///
    /// # Safety
    /// The conditions of [`quick_ring_transfer`](Self::quick_ring_transfer).
    #[inline(always)]
    unsafe fn ring_word<const T: bool, const PUT: bool>(
        &self,
        endpoint: NonNull<Endpoint>,
        local: *mut c_void,
        (remote, address): (&Handle, u64),
        size: usize,
        completion: Option<Completion>,
    ) -> Tried {
        // SAFETY: the caller guarantees `T` and that `endpoint` is live; `first` points to a context that lives as long as
        // the transport. A peer with a ring has a requester, which is used under the lock.
        unsafe {
            let peer = endpoint.as_ref();
            let context = &*self.quick.first;
            let Some(mut state) = context.state.try_lock_as(T) else {
                return Tried::LeftToKernel;
            };
            let requester = match peer.has_ring::<T>() && peer.is_well::<T>() {
                true => &mut *Requester::of(peer),
                false => {
                    state.unlock_as(T);
                    return Tried::Unusual;
                }
            };
            let room = requester.room_for_word(size);
            let (Some(room), Some(channel)) = (room, &mut state.channel) else {
                state.unlock_as(T);
                return Tried::Unusual;
            };
            if !requester.tries_ring(|| self.copies_quickly(completion)) {
                self.serve_before_copy(channel);
                state.unlock_as(T);
                return Tried::LeftToKernel;
            }
            self.carried(Share::ONLY, (peer, Carrier::Ring, size), false);
            let tag = context.raise(peer, T);
            let caller = Caller::plain(completion, local);
            let transfer = Request::transfer(PUT, local, remote, address, size);
            requester.transfer(&transfer, room, caller.finished(tag));
            channel.list(requester);
            state.unlock_as(T);
        }
        Tried::Posted
    }

    /// [`try_ring_transfer`](Self::try_ring_transfer) for callers without local handle.
    ///
    /// # Safety
    /// The conditions of [`try_ring_transfer`](Self::try_ring_transfer).
    #[inline(never)]
    #[allow(clippy::too_many_arguments, reason = "see `Completion::parts`")]
    unsafe fn ring_block<const PUT: bool>(
        &self,
        endpoint: NonNull<Endpoint>,
        local: *mut c_void,
        remote: &Handle,
        address: u64,
        size: usize,
        function: Option<CompletionFn>,
        context: *mut c_void,
        data: *mut c_void,
    ) -> Option<Status> {
        let transfer = Request::transfer(PUT, local, remote, address, size);
        let completion = Completion::of(function, context, data);
        let caller = Caller::plain(completion, local);
        let asked = (&transfer, self.copies_quickly(completion));
        // SAFETY: the caller guarantees the same conditions.
        unsafe { self.try_ring_transfer(endpoint, &caller, asked) }
    }
}
