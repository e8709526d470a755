//! Requests that gather in messages (`fabric::msg`): their posts. What they bring is in `poll`.
//!
//! A batch that gathers for the peer nearly always exists and has room. Then the first function of a door's table adds the
//! request to it, in place. [`try_tell`](Transport::try_tell) does the rest: it begins batches, and sends full ones.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use plugin_api::counters::Carrier;
use plugin_api::{AtomicKind, Status};

use crate::base::guarded::guarded;
use crate::base::hints::branch;
use crate::core::context::Context;
use crate::core::state::Core;
use crate::fabric::msg::{Batch, Form};
use crate::mem::handle::Handle;
use crate::op::atomic::AtomicCommand;
use crate::op::completion::Completion;
use crate::op::request::Caller;
use crate::op::request::Operands;
use crate::op::responder::{Command, GET, PUT};
use crate::op::tag::Tag;
use crate::peer::endpoint::Endpoint;

/// A request for a target, checked against its handle.
pub(crate) struct Told {
    pub(crate) command: Command,
    pub(crate) operands: Operands,
    /// Bytes of the operands and of the result.
    pub(crate) size: usize,
    result: *mut c_void,
}

impl Told {
    /// A put, or a get if not `put`.
    #[inline]
    pub(crate) fn transfer(
        put: bool,
        local: *mut c_void,
        remote: &Handle,
        address: u64,
        size: usize,
    ) -> Told {
        Told {
            command: Command {
                what: if put { PUT } else { GET },
                count: size as u32,
                address,
                key: remote.key(),
                cookie: remote.cookie(),
                compare: 0,
            },
            operands: Operands::Buffer(local),
            size,
            result: if put { ptr::null_mut() } else { local },
        }
    }
}

impl AtomicCommand {
    /// The atomic as a request for its target.
    #[inline(always)]
    pub(crate) fn told(&self) -> Told {
        Told {
            command: Command {
                what: self.what,
                count: self.count as u32,
                address: self.address,
                key: self.key,
                cookie: self.cookie,
                compare: self.compare,
            },
            operands: self.operands,
            size: self.size,
            result: self.result,
        }
    }
}

impl Caller {
    /// Whether the answer to an operation of this form must be acted on.
    #[inline(always)]
    pub(crate) fn expects(&self, form: &Form) -> bool {
        form.results > 0 || self.completion.is_some()
    }
}

impl Core {
    /// Adds a put, or a get if not `PUTS`, to the batch that gathers for the peer. `None`, before side effects, for anything
    /// unusual.
    ///
    /// # Safety
    /// As for [`submit`](Self::submit); `T` is [`is_threaded`](Self::is_threaded).
    #[inline(always)]
    pub(crate) unsafe fn gather_transfer<const T: bool, const PUTS: bool>(
        &self,
        endpoint: NonNull<Endpoint>,
        local: *mut c_void,
        (remote, address): (&Handle, u64),
        size: usize,
        completion: Option<Completion>,
    ) -> Option<Status> {
        branch();
        // SAFETY: the caller guarantees `T` and that `endpoint` is live.
        if !unsafe { endpoint.as_ref().sends_transfers_by_message::<T>() } {
            return None;
        }
        let (caller, told) =
            self.told_transfer::<PUTS>(local, (remote, address), size, completion)?;
        let form = Form::known(told.command.what, size);
        // SAFETY: the caller guarantees `T`, that `endpoint` is live and that the buffer is valid until completion.
        unsafe { self.gather_at_once::<T>(endpoint, &caller, &told, &form) }
    }

    /// Checks a put, or a get if not `PUTS`, and returns it as a request of its caller.
    #[inline(always)]
    fn told_transfer<const PUTS: bool>(
        &self,
        local: *mut c_void,
        (remote, address): (&Handle, u64),
        size: usize,
        completion: Option<Completion>,
    ) -> Option<(Caller, Told)> {
        let (puts, gets) = self.setup.message_limits;
        self.place(local, remote, address, size, if PUTS { puts } else { gets })?;
        let caller = Caller {
            completion,
            local_address: local,
            local_handle: ptr::null_mut(),
        };
        Some((caller, Told::transfer(PUTS, local, remote, address, size)))
    }

    /// Adds an AMO, which has one operand, to the batch that gathers for the peer. `None`, before side effects, for anything
    /// unusual.
    ///
    /// # Safety
    /// `endpoint` is live; the result of `atomic` is valid until completion; `T` is [`is_threaded`](Self::is_threaded).
    #[inline(always)]
    pub(crate) unsafe fn gather_word<const T: bool>(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        (kind, atomic): (AtomicKind, &AtomicCommand),
    ) -> Option<Status> {
        // SAFETY: the caller guarantees `T`, that `endpoint` is live and that the result is valid until completion.
        unsafe { self.gather_at_once::<T>(endpoint, caller, &atomic.told(), &Form::word(kind)) }
    }

    /// # Safety
    /// `endpoint` is live; the buffers of `told`, whose form is `form`, are valid until completion; `T` is
    /// [`is_threaded`](Self::is_threaded).
    #[inline(always)]
    unsafe fn gather_at_once<const T: bool>(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        told: &Told,
        form: &Form,
    ) -> Option<Status> {
        // SAFETY: the caller guarantees that `endpoint` is live; the first context lives as long as the transport.
        let (peer, context) = unsafe { (endpoint.as_ref(), &*self.quick.first) };
        // SAFETY: the caller guarantees `T`, and contexts use the same threading as their transport.
        let mut state = unsafe { context.state.lock_as(T) };
        branch();
        // Checked under the lock, because the messages to a failed peer end under it.
        // SAFETY: the caller guarantees that `T` is the transport's threading.
        let is_well = unsafe { peer.is_well::<T>() };
        let batch = match &mut state.messages {
            Some(messages) if is_well => messages.gathering(endpoint, form, caller.expects(form)),
            _ => None,
        };
        let Some(batch) = batch else {
            // SAFETY: the lock was taken above with the same `T`.
            unsafe { state.unlock_as(T) };
            return None;
        };
        // SAFETY: the batch has room, and the caller guarantees the endpoint and the buffers.
        unsafe { self.add_to(batch, (endpoint, context), (caller, told, form), T) };
        // SAFETY: the lock was taken above with the same `T`.
        unsafe { state.unlock_as(T) };
        Some(Status::SUCCESS)
    }

    /// Adds a request to a batch and counts it.
    ///
    /// # Safety
    /// The batch has room for `form`, which is that of `told`; `endpoint` is live; the buffers are valid until completion.
    /// `threaded` is [`is_threaded`](Self::is_threaded).
    #[inline(always)]
    unsafe fn add_to(
        &self,
        batch: &mut Batch,
        (endpoint, context): (NonNull<Endpoint>, &Context),
        (caller, told, form): (&Caller, &Told, &Form),
        threaded: bool,
    ) {
        let size = told.size;
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        // SAFETY: the caller guarantees the operands and the room.
        unsafe { batch.push((&told.command, form), (told.operands, size)) };
        let (own, peers) = context.raise_both(peer, threaded);
        if caller.expects(form) {
            let finished = caller.finished(Tag::new(endpoint, own, peers));
            // SAFETY: the caller guarantees that the result is writable until completion.
            unsafe { batch.expect((form, size), told.result.cast(), finished) };
        } else {
            batch.count(own, peers);
        }
        self.count_by_first(peer, Carrier::Message, size);
    }

    /// The quick path of a put or get by message that begins a batch. `None`, before side effects, for anything unusual.
    ///
    /// # Safety
    /// As for [`submit`](Self::submit); the peer's transfers travel as messages.
    #[inline(never)]
    pub(crate) unsafe fn try_tell_transfer<const PUTS: bool>(
        &self,
        endpoint: NonNull<Endpoint>,
        local: *mut c_void,
        (remote, address): (&Handle, u64),
        size: usize,
        completion: Option<Completion>,
    ) -> Option<Status> {
        let (caller, told) =
            self.told_transfer::<PUTS>(local, (remote, address), size, completion)?;
        // SAFETY: the caller guarantees that `endpoint` is live and that the buffer is valid until completion.
        unsafe { self.try_tell(endpoint, &caller, &told) }
    }

    /// Adds a request to what gathers for its target. `None`, before side effects, if the peer failed, or if there is no
    /// room at the moment.
    ///
    /// # Safety
    /// `endpoint` is live; the buffers of `told` are valid until completion.
    #[inline(never)]
    pub(crate) unsafe fn try_tell(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        told: &Told,
    ) -> Option<Status> {
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let context = &self.contexts[0];
        let mut state = context.state.lock();
        // Checked under the lock, because the messages to a failed peer end under it.
        if peer.failure().is_some() {
            return None;
        }
        let messages = state.messages.as_mut()?;
        let form = Form::known(told.command.what, told.size);
        // SAFETY: the line of a peer is removed before its endpoint is.
        let (batch, full) = unsafe { messages.batch(endpoint, &form) }.ok()?;
        let threaded = self.setup.threaded;
        // SAFETY: the batch has room, and the caller guarantees the endpoint and the buffers.
        unsafe { self.add_to(batch, (endpoint, context), (caller, told, &form), threaded) };
        drop(state);
        if full {
            self.poll_while_sending(context);
        }
        Some(Status::SUCCESS)
    }

    /// Reads answers while batches are sent, so that both go on. Sends nothing: the batch that was just begun has one command,
    /// and more are likely to come. Where callbacks run nothing is read, because they would nest.
    #[cold]
    #[inline(never)]
    pub(crate) fn poll_while_sending(&self, context: &Context) {
        guarded(|| {
            if !self.must_not_poll(context)
                && let Some(state) = context.state.try_lock()
                && !state.messages.as_ref().is_some_and(|m| m.is_full())
            {
                self.read_queue(context, state);
            }
            Status::SUCCESS
        });
    }

    /// Posts a request as a message.
    ///
    /// # Safety
    /// As for [`try_tell`](Self::try_tell).
    #[cold]
    pub(crate) unsafe fn tell(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        told: &Told,
    ) -> Status {
        // SAFETY: the caller guarantees that `endpoint` is live and that the buffers are valid until completion.
        if let Some(status) = unsafe { self.try_tell(endpoint, caller, told) } {
            return status;
        }
        self.untold(endpoint)
    }

    /// The status of a request that did not become a message: its peer failed, or there is no room at the moment.
    #[cold]
    pub(crate) fn untold(&self, endpoint: NonNull<Endpoint>) -> Status {
        // SAFETY: the caller of the operation guarantees that `endpoint` is live.
        if let Some(status) = unsafe { endpoint.as_ref() }.failure() {
            return status;
        }
        self.refuse_for_now(endpoint, &self.contexts[0])
    }
}
