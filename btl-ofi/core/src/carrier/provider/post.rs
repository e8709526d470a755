//! The common path of all operations: count the operation, fill an operation record if one is needed, call the
//! provider.
//!
//! [`begin`](Transport::begin) and [`end`](Transport::end) are the fast path: inlined, monomorphised on
//! threading (`T`), never unwinding. Anything unusual falls back to the slow path, [`post`](Transport::post),
//! before side effects.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use plugin_api::Status;
use plugin_api::counters::Carrier;

use crate::base::hints::branch;
use crate::base::lock::Guard;
use crate::core::context::{Attempt, Context, State};
use crate::core::state::Core;
use crate::detector::LONG;
use crate::op::completion::Completion;
use crate::op::record::Record;
use crate::op::request::Caller;
use crate::op::tag::Tag;
use crate::peer::endpoint::Endpoint;
use crate::peer::share::Share;

/// A counted operation before the call of the provider, with its record if it needs one.
pub(crate) struct Posting<'a> {
    pub(crate) context: &'a Context,
    pub(crate) state: Guard<'a, State>,
    /// The context pointer for the provider.
    pub(crate) pointer: *mut c_void,
}

impl<'a> Posting<'a> {
    #[inline(always)]
    fn new(
        context: &'a Context,
        mut state: Guard<'a, State>,
        (pointer, bytes): (*mut c_void, usize),
    ) -> Self {
        state.attempt = Attempt { pointer, bytes };
        Posting {
            context,
            state,
            pointer,
        }
    }
}

impl Posting<'_> {
    /// Stores an operand in the operation record; returns its address.
    ///
    /// # Safety
    /// The operation has a record.
    #[inline(always)]
    pub(crate) unsafe fn operand(&self, value: u64) -> *mut c_void {
        // SAFETY: the caller guarantees that `pointer` is this operation's record.
        unsafe { Record::operand(self.pointer.cast(), value) }
    }

    /// Stores the value to compare with in the operation record; returns its address.
    ///
    /// # Safety
    /// The operation has a record.
    #[inline(always)]
    pub(crate) unsafe fn compare(&self, value: u64) -> *mut c_void {
        // SAFETY: the caller guarantees that `pointer` is this operation's record.
        unsafe { Record::compare(self.pointer.cast(), value) }
    }
}

impl Core {
    /// Begins to post an operation on the fast path. Returns `None`, before side effects, for anything
    /// unusual. The counts are raised before the provider's call, because another thread may read the
    /// completion before this call returns.
    ///
    /// # Safety
    /// `endpoint` is live; `T` is whether the transport was opened for threads.
    #[inline(always)]
    pub(crate) unsafe fn begin<const T: bool>(
        &self,
        endpoint: NonNull<Endpoint>,
        (local_address, bytes): (*mut c_void, usize),
        completion: Option<Completion>,
    ) -> Option<Posting<'_>> {
        // SAFETY: the caller's guarantees.
        let (context, mut state) = unsafe { self.lock_for::<T, true>(endpoint) }?;
        let Some(taken) = state.pool.take_ready() else {
            // SAFETY: `lock_for` locked with the same `T`.
            unsafe { state.unlock_as(T) };
            return None;
        };
        let tag = self.count_posted::<T>(context, endpoint, bytes);
        // SAFETY: the record was just taken from the pool, so nothing else uses it.
        unsafe { Record::fill(taken, tag, completion, local_address, ptr::null_mut()) };
        let pointer = taken.as_ptr().cast();
        Some(Posting::new(context, state, (pointer, bytes)))
    }

    /// [`begin`](Self::begin) for an untracked operation, which has no callback and no record. Returns `None` if every
    /// operation needs a record (`Policy::untracked`).
    ///
    /// # Safety
    /// The conditions of [`begin`](Self::begin).
    #[inline(always)]
    pub(crate) unsafe fn begin_untracked<const T: bool>(
        &self,
        endpoint: NonNull<Endpoint>,
        bytes: usize,
    ) -> Option<Posting<'_>> {
        // SAFETY: the caller's guarantees.
        let (context, state) = unsafe { self.lock_for::<T, false>(endpoint) }?;
        let pointer = self.count_posted::<T>(context, endpoint, bytes).untracked();
        Some(Posting::new(context, state, (pointer, bytes)))
    }

    /// Locks this thread's context for a post, with or without a record. Returns `None` if the peer failed, or if many
    /// operations are outstanding.
    ///
    /// # Safety
    /// The conditions of [`begin`](Self::begin).
    #[inline(always)]
    unsafe fn lock_for<const T: bool, const RECORD: bool>(
        &self,
        endpoint: NonNull<Endpoint>,
    ) -> Option<(&Context, Guard<'_, State>)> {
        let context = self.context_as::<T>();
        // SAFETY: the caller guarantees `T`, and contexts use the same threading as their transport.
        let state = unsafe { context.state.lock_as(T) };
        // The lock covers this check and the following raise of the counts, so that all threads together keep the
        // limit. The lock also covers the check of the peer, because `close_endpoints_for` marks a peer as failed
        // with all contexts locked. SAFETY: the caller guarantees that `endpoint` is live and that `T` is the
        // transport's threading.
        let ordinary = unsafe { endpoint.as_ref().is_well::<T>() } && {
            branch();
            let quick = &self.quick;
            context.count.outstanding()
                < match RECORD {
                    true => quick.outstanding_limit,
                    false => quick.untracked_limit,
                }
        };
        if !ordinary {
            // SAFETY: the lock was taken above with the same `T`.
            unsafe { state.unlock_as(T) };
            return None;
        }
        branch();
        Some((context, state))
    }

    /// Counts an operation before its call of the provider.
    #[inline(always)]
    fn count_posted<const T: bool>(
        &self,
        context: &Context,
        endpoint: NonNull<Endpoint>,
        bytes: usize,
    ) -> Tag {
        // SAFETY: the caller of the operation guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let tag = context.raise(peer, T);
        let share = if T { context.share } else { Share::ONLY };
        self.carried(share, (peer, Carrier::Provider, bytes), false);
        tag
    }

    /// Posts one operation on the slow path. `call` calls the provider.
    ///
    /// # Safety
    /// `endpoint` is live; `call` posts to that peer with the posting's pointer.
    #[inline(always)]
    pub(crate) unsafe fn post(
        &self,
        endpoint: NonNull<Endpoint>,
        (caller, bytes): (&Caller, usize),
        needs_record: bool,
        call: impl FnOnce(&mut Posting<'_>) -> isize,
    ) -> Status {
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let context = self.context();
        let mut state = context.state.lock();
        // The check is under the lock, because `close_endpoints_for` marks a peer as failed with all contexts locked, and
        // also closes the endpoints of peers without a known operation at the provider. The check is repeated after
        // `progress_under`, which may release the lock.
        let refusal = |state: &State| {
            let closed = state.is_closed().then_some(Status::FATAL);
            peer.failure().or(closed)
        };
        if let Some(status) = refusal(&state) {
            return status;
        }
        if context.count.outstanding() >= self.quick.outstanding_limit {
            state = self.progress_under(context, state);
            if let Some(status) = refusal(&state) {
                return status;
            }
        }
        let tag = context.raise(peer, self.setup.threaded);
        let pointer = if needs_record || caller.completion.is_some() || !self.policy.untracked {
            let Some(taken) = state.pool.take() else {
                drop(state);
                self.lower(context, tag, 1);
                return Status::OUT_OF_RESOURCE;
            };
            // SAFETY: the record was just taken from the pool, so nothing else uses it.
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
            tag.untracked()
        };
        self.carried(context.share, (peer, Carrier::Provider, bytes), false);
        let mut posting = Posting::new(context, state, (pointer, bytes));
        let rc = call(&mut posting);
        let Posting { state, .. } = posting;
        if rc != 0 {
            return self.unposted(context, state, rc);
        }
        drop(state);
        if bytes >= LONG {
            self.expect_long(peer, bytes);
        }
        Status::SUCCESS
    }

    /// Makes progress where many operations are outstanding, without the lock, and takes the lock again.
    #[cold]
    #[inline(never)]
    fn progress_under<'a>(
        &self,
        context: &'a Context,
        state: Guard<'a, State>,
    ) -> Guard<'a, State> {
        if self.must_not_poll(context) {
            return state;
        }
        drop(state);
        self.poll(context);
        context.state.lock()
    }
}
