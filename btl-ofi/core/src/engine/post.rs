//! The common path of all operations: counted, given a record where one is needed, handed to the
//! provider.
//!
//! There are two ways. The *quick* one ([`begin`](Transport::begin), [`end`](Transport::end)) is for
//! operations with nothing out of the ordinary, is inlined whole, and has whether calls may overlap as the
//! constant `T`, does not unwind; whatever does not go that way is left to the *general* one
//! ([`post`](Transport::post)), before anything was done. So the quick way keeps nothing for the others.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use plugin_api::Status;

use crate::base::error::status_of;
use crate::base::hints::branch;
use crate::base::lock::Guard;
use crate::engine::context::{Context, State};
use crate::engine::transport::Transport;
use crate::op::record::{Completion, Finished, Record, Tag};
use crate::peer::endpoint::Endpoint;

/// Posts turned away after which it is asked whether the peer still runs.
const AGAIN_CHECK: u64 = 4096;

/// What every operation looks at.
#[repr(C)]
pub(crate) struct Quick {
    /// The first context. Lives as long as the transport.
    pub(crate) first: *const Context,
    /// Flags of a put or update that the provider must confirm.
    pub(crate) delivered: u64,
    /// Operations outstanding on a context from which on a post first makes progress, or finds no room.
    pub(crate) crowd: u32,
    /// Most bytes of a transfer that the target may be asked to make (`ring_transfers`); 0 where none is.
    pub(crate) small: usize,
    /// Whether there are more contexts than the first.
    pub(crate) several: bool,
    /// Whether operations without callback need a record too.
    pub(crate) records: bool,
    /// Whether the provider addresses memory by virtual address.
    pub(crate) virtual_addresses: bool,
}

/// The caller's side of an operation.
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) completion: Option<Completion>,
    pub(crate) local_address: *mut c_void,
    pub(crate) local_handle: *mut plugin_api::Handle,
}

impl Caller {
    /// What its completion will have to say.
    #[inline]
    pub(crate) fn finished(&self, tag: Tag) -> Finished {
        Finished {
            tag,
            function: self.completion.map(|c| c.function),
            context: self.completion.map_or(ptr::null_mut(), |c| c.context),
            data: self.completion.map_or(ptr::null_mut(), |c| c.data),
            local_address: self.local_address,
            local_handle: self.local_handle,
        }
    }
}

/// What an operation needs besides what its caller wants.
#[derive(Clone, Copy, Default)]
pub(crate) struct Needs {
    /// A record, for its operands.
    pub(crate) record: bool,
    /// That nothing else is outstanding on its context.
    pub(crate) alone: bool,
}

/// An operation that was counted and has its record, if it needs one: to be handed to the provider.
pub(crate) struct Posting<'a> {
    pub(crate) context: &'a Context,
    pub(crate) state: Guard<'a, State>,
    /// The provider's context pointer.
    pub(crate) pointer: *mut c_void,
}

impl Posting<'_> {
    /// Leaves an operand in the operation's record; gives its place.
    ///
    /// # Safety
    /// The operation has a record.
    #[inline(always)]
    pub(crate) unsafe fn operand(&self, value: u64) -> *mut c_void {
        // SAFETY: the operation's own, as the caller vouches.
        unsafe { Record::operand(self.pointer.cast(), value) }
    }

    /// Leaves a value to compare with there; gives its place.
    ///
    /// # Safety
    /// As for [`operand`](Self::operand).
    #[inline(always)]
    pub(crate) unsafe fn compare(&self, value: u64) -> *mut c_void {
        // SAFETY: likewise.
        unsafe { Record::compare(self.pointer.cast(), value) }
    }
}

/// Runs what may run code of others, for the quick way, which its doors call without a guard of their own.
/// A panic is a bug, and told of by its hook; the caller learns [`Status::FATAL`].
pub(crate) fn guarded(call: impl FnOnce() -> Status) -> Status {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(status) => status,
        Err(_) => Status::FATAL,
    }
}

impl Transport {
    /// This thread's context. Where calls never overlap the first serves them all.
    #[inline(always)]
    pub(crate) fn context_as<const T: bool>(&self) -> &Context {
        if T && self.quick.several {
            return self.context_of_thread();
        }
        // SAFETY: a context of this transport.
        unsafe { &*self.quick.first }
    }

    /// As [`context_as`](Self::context_as).
    #[inline]
    pub(crate) fn context(&self) -> &Context {
        if self.threaded {
            self.context_as::<true>()
        } else {
            self.context_as::<false>()
        }
    }

    #[inline(never)]
    fn context_of_thread(&self) -> &Context {
        &self.contexts[self.own_index()]
    }

    /// Begins to post an operation the quick way; `None`, with nothing done, if there is anything out of
    /// the ordinary. Counts are raised before it is handed to the provider, because its completion may be
    /// read by another thread before that call even returns.
    ///
    /// # Safety
    /// `endpoint` is live; `T` is whether the transport was opened for threads.
    #[inline(always)]
    pub(crate) unsafe fn begin<const T: bool, const RECORD: bool>(
        &self,
        endpoint: NonNull<Endpoint>,
        local_address: *mut c_void,
        completion: Option<Completion>,
    ) -> Option<Posting<'_>> {
        // SAFETY: the caller vouches for a live endpoint.
        let peer = unsafe { endpoint.as_ref() };
        let context = self.context_as::<T>();
        // SAFETY: the caller vouches for T; contexts are made for threads as the transport is.
        let mut state = unsafe { context.state.lock_as(T) };
        // One lock hold covers the look and the raise below, so the bound is kept among threads too. The
        // peer is looked at under the lock: it is cut off with all of them held.
        // SAFETY: likewise.
        let ordinary = unsafe { peer.is_well::<T>() } && {
            branch();
            context.count.outstanding() < self.quick.crowd
        };
        if !ordinary {
            // SAFETY: likewise.
            unsafe { state.unlock_as(T) };
            return None;
        }
        branch();
        if !RECORD && !(completion.is_some() | self.quick.records) {
            let tag = Tag::new(endpoint, context.count.raise(T), peer.count.raise(T));
            return Some(Posting {
                context,
                state,
                pointer: tag.bare(),
            });
        }
        let Some(taken) = state.pool.take_ready() else {
            // SAFETY: likewise.
            unsafe { state.unlock_as(T) };
            return None;
        };
        let tag = Tag::new(endpoint, context.count.raise(T), peer.count.raise(T));
        // SAFETY: just taken from the pool, so nobody else has it.
        unsafe { Record::fill(taken, tag, completion, local_address, ptr::null_mut()) };
        Some(Posting {
            context,
            state,
            pointer: taken.as_ptr().cast(),
        })
    }

    /// Ends to post an operation, with what the provider answered.
    ///
    /// # Safety
    /// `T` as for [`begin`](Self::begin), which made the posting.
    #[inline(always)]
    pub(crate) unsafe fn end<const T: bool>(
        &self,
        posting: Posting<'_>,
        rc: isize,
    ) -> Option<Status> {
        let Posting {
            context,
            mut state,
            pointer,
        } = posting;
        if rc != 0 {
            return Some(self.unposted_quickly(context, state, pointer, rc));
        }
        state.posted += 1;
        // SAFETY: as the caller vouches.
        unsafe { state.unlock_as(T) };
        Some(Status::SUCCESS)
    }

    /// Hands one operation to the provider by way of `call`, the general way.
    ///
    /// # Safety
    /// `endpoint` is live; `call` posts to that peer with the pointer it is given.
    #[inline(always)]
    pub(crate) unsafe fn post(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        needs: Needs,
        call: impl FnOnce(&mut Posting<'_>) -> isize,
    ) -> Status {
        // SAFETY: the caller vouches for a live endpoint.
        let peer = unsafe { endpoint.as_ref() };
        let context = self.context();
        let mut state = context.state.lock();
        // As in `begin`, under the lock; and again where that was given back for a while.
        if let Some(status) = peer.failure() {
            return status;
        }
        if needs.alone || context.count.outstanding() >= self.quick.crowd {
            state = match self.make_room(context, state, needs.alone) {
                Ok(state) => state,
                Err(status) => return status,
            };
            if let Some(status) = peer.failure() {
                return status;
            }
        }
        let tag = Tag::new(
            endpoint,
            context.count.raise(self.threaded),
            peer.count.raise(self.threaded),
        );
        let pointer = if needs.record || caller.completion.is_some() || self.quick.records {
            let Some(taken) = state.pool.take() else {
                drop(state);
                self.lower(context, tag, 1);
                return Status::OUT_OF_RESOURCE;
            };
            // SAFETY: just taken from the pool, so nobody else has it.
            unsafe {
                Record::fill(
                    taken,
                    tag,
                    caller.completion,
                    caller.local_address,
                    caller.local_handle,
                );
            }
            taken.as_ptr().cast()
        } else {
            tag.bare()
        };
        let mut posting = Posting {
            context,
            state,
            pointer,
        };
        let rc = call(&mut posting);
        let Posting { mut state, .. } = posting;
        if rc != 0 {
            return self.unposted(context, state, pointer, rc);
        }
        state.posted += 1;
        Status::SUCCESS
    }

    /// Makes progress where many operations are outstanding, and turns another away where more are than
    /// the provider can hold.
    #[cold]
    #[inline(never)]
    fn make_room<'a>(
        &self,
        context: &'a Context,
        mut state: Guard<'a, State>,
        alone: bool,
    ) -> Result<Guard<'a, State>, Status> {
        let most = if alone { 1 } else { self.policy.depth };
        let is_full = || {
            let outstanding = context.count.outstanding();
            // What is counted without the provider having it does not crowd the provider.
            outstanding >= most && outstanding.saturating_sub(self.hmem.held()) >= most
        };
        let many = context.count.outstanding() >= self.progress_threshold;
        if (many || is_full()) && !context.delivering.load(Ordering::Relaxed) {
            drop(state);
            self.poll(context);
            state = context.state.lock();
        }
        if is_full() {
            return Err(Status::TEMP_OUT_OF_RESOURCE);
        }
        Ok(state)
    }

    /// [`unposted`](Self::unposted) for the quick way.
    #[cold]
    #[inline(never)]
    fn unposted_quickly(
        &self,
        context: &Context,
        state: Guard<'_, State>,
        pointer: *mut c_void,
        rc: isize,
    ) -> Status {
        guarded(|| self.unposted(context, state, pointer, rc))
    }

    /// Takes back an operation that the provider refused.
    #[cold]
    #[inline(never)]
    fn unposted(
        &self,
        context: &Context,
        mut state: Guard<'_, State>,
        pointer: *mut c_void,
        rc: isize,
    ) -> Status {
        let tag = match (Tag::from_bare(pointer), NonNull::new(pointer.cast())) {
            (Some(tag), _) => tag,
            // SAFETY: taken by `post_as`; the provider refused the operation and forgot it.
            (None, Some(record)) => unsafe { state.pool.give_back(record) }.tag,
            (None, None) => return Status::ERROR,
        };
        state.again += 1;
        let count = state.again;
        drop(state);
        self.lower(context, tag, 1);
        match NonNull::new(tag.endpoint()) {
            Some(endpoint) => self.refused(endpoint, context, rc, count),
            None => Status::ERROR,
        }
    }

    /// Makes progress where many operations are outstanding.
    #[inline]
    pub(crate) fn poll_if_many(&self, context: &Context) {
        if context.count.outstanding() > self.progress_threshold
            && !context.delivering.load(Ordering::Relaxed)
        {
            self.poll(context);
        }
    }

    /// Counts operations as done at their peer and in their context, in this order: whoever finds a
    /// context without other operations than those it accounts for (`settle_unattributed`) must not
    /// find others still counted at a peer.
    #[inline(always)]
    pub(crate) fn lower(&self, context: &Context, tag: Tag, n: u32) {
        // SAFETY: tags are made from endpoints that outlive their operations.
        let peer = unsafe { &*tag.endpoint() };
        peer.count.lower(tag.endpoint_phase(), n, self.threaded);
        context.count.lower(tag.context_phase(), n, self.threaded);
    }

    /// What a refused post means to the caller. shm refuses for ever once a peer died with its
    /// command queue full, so now and then the peer is looked at.
    #[cold]
    #[inline(never)]
    pub(crate) fn refused(
        &self,
        endpoint: NonNull<Endpoint>,
        context: &Context,
        rc: isize,
        count: u64,
    ) -> Status {
        let status = i32::try_from(-rc).map_or(Status::ERROR, status_of);
        if status == Status::TEMP_OUT_OF_RESOURCE {
            if count.is_multiple_of(AGAIN_CHECK) {
                self.check_peers();
                // SAFETY: the caller of post vouched for the endpoint.
                if let Some(gone) = unsafe { endpoint.as_ref() }.failure() {
                    return gone;
                }
                if self.takes_nothing(context) {
                    let why =
                        "the provider has taken no operation since btl_ofi_peer_timeout began";
                    self.abandon_peer(endpoint, why);
                    return Status::UNREACH;
                }
            }
            // Completions free the provider's room; its own callbacks may already be running here.
            if !context.delivering.load(Ordering::Relaxed) {
                self.poll(context);
            }
        } else if status == Status::UNREACH {
            self.fail_peer(endpoint, status, "the provider refuses to send to it");
        } else {
            // Some providers have no better word for a lost connection than any error.
            self.check_peers();
            // SAFETY: the caller of post vouched for the endpoint.
            if let Some(gone) = unsafe { endpoint.as_ref() }.failure() {
                return gone;
            }
        }
        status
    }

    /// Whether a context has taken no operation for the time that peers are given. Nothing need be
    /// outstanding for that, so no peer would be found silent.
    fn takes_nothing(&self, context: &Context) -> bool {
        if self.peer_timeout_ms == 0 {
            return false;
        }
        let now = self.opened.elapsed().as_millis() as u64;
        let mut state = context.state.lock();
        match state.refusing {
            Some((posted, since)) if posted == state.posted => now - since >= self.peer_timeout_ms,
            _ => {
                state.refusing = Some((state.posted, now));
                false
            }
        }
    }

    /// Completes an operation that needs no provider: at once without callback, else when progress is made.
    #[cold]
    pub(crate) fn nothing(&self, endpoint: NonNull<Endpoint>, caller: Caller) -> Status {
        // SAFETY: the caller of the operation vouched for the endpoint.
        let peer = unsafe { endpoint.as_ref() };
        if let Some(status) = peer.failure() {
            return status;
        }
        if caller.completion.is_none() {
            return Status::SUCCESS;
        }
        let context = self.context();
        let mut state = context.state.lock();
        if state.ready.try_reserve(1).is_err() {
            return Status::OUT_OF_RESOURCE;
        }
        let tag = Tag::new(
            endpoint,
            context.count.raise(self.threaded),
            peer.count.raise(self.threaded),
        );
        state.ready.push(caller.finished(tag));
        Status::SUCCESS
    }
}
