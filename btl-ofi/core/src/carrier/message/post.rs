//! Posts of requests that gather in messages (`fabric::msg`). The module `poll` handles their
//! results.
//!
//! A batch that gathers for the peer nearly always exists and has room. Then the first function of a door's table adds the
//! request to it, in place. [`try_tell`](Transport::try_tell) does the rest: it begins batches, and sends full ones.

use std::ffi::c_void;
use std::ptr::NonNull;

use plugin_api::counters::Carrier;
use plugin_api::{CompletionFn, Status};

use crate::base::hints::branch;
use crate::base::lock::Guard;
use crate::core::context::{Context, State};
use crate::core::state::Core;
use crate::fabric::msg::{Batch, Form};
use crate::mem::handle::Handle;
use crate::op::completion::Completion;
use crate::op::request::{Caller, Request};
use crate::op::tag::Tag;
use crate::peer::endpoint::Endpoint;
use crate::peer::share::Share;

impl Caller {
    /// Whether this process must act on the answer to an operation of this form.
    #[inline(always)]
    pub(crate) fn expects(&self, form: &Form) -> bool {
        form.results > 0 || self.completion.is_some()
    }
}

impl Core {
    /// Adds a request to the peer's current batch. Returns `None`, before side effects, for anything unusual.
    ///
    /// # Safety
    /// `endpoint` is live; the buffers of `request` are valid until completion, and `form` is its form; `T` is
    /// [`is_threaded`](Self::is_threaded).
    #[inline(always)]
    pub(crate) unsafe fn gather<const T: bool>(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        request: &Request,
        form: &Form,
    ) -> Option<Status> {
        // SAFETY: the caller guarantees that `endpoint` is live; the first context lives as long as the transport.
        let (peer, context) = unsafe { (endpoint.as_ref(), &*self.quick.first) };
        // SAFETY: the caller guarantees `T`, and contexts use the same threading as their transport.
        let mut state = unsafe { context.state.try_lock_as(T) }?;
        branch();
        // The check is under the lock, because the messages to a failed peer end under it.
        // SAFETY: the caller guarantees that `T` is the transport's threading.
        let is_well = unsafe { peer.is_well::<T>() };
        let batch = match &mut state.messages {
            Some(messages) if is_well => match messages.current(endpoint) {
                Some(batch) if batch.takes_at_once(form, caller.expects(form)) => Some(batch),
                _ => None,
            },
            _ => None,
        };
        let Some(batch) = batch else {
            // SAFETY: the lock was taken above with the same `T`.
            unsafe { state.unlock_as(T) };
            return None;
        };
        // SAFETY: the batch has room, and the caller guarantees the endpoint and the buffers.
        unsafe { self.add_to(batch, (endpoint, context), (caller, request, form), T) };
        // SAFETY: the lock was taken above with the same `T`.
        unsafe { state.unlock_as(T) };
        Some(Status::SUCCESS)
    }

    /// Locks a context that another thread holds. Returns `None` if this takes long and the host [pauses before it repeats a
    /// post](crate::core::state::Setup::answers_at_once). Such a host does not count the operation during its pause, so no flush of
    /// another thread waits until this thread gets a processor again.
    #[cold]
    #[inline(never)]
    fn lock_to_post<'a>(&self, context: &'a Context) -> Option<Guard<'a, State>> {
        match self.setup.answers_at_once {
            true => context.state.lock_soon(),
            false => Some(context.state.lock()),
        }
    }

    /// Adds a request to a batch and counts it.
    ///
    /// # Safety
    /// The batch has room for `form`, which is the form of `request`; `endpoint` is live; the buffers are valid until
    /// completion. `threaded` is [`is_threaded`](Self::is_threaded).
    #[inline(always)]
    unsafe fn add_to(
        &self,
        batch: &mut Batch,
        to: (NonNull<Endpoint>, &Context),
        (caller, request, form): (&Caller, &Request, &Form),
        threaded: bool,
    ) {
        let size = request.size;
        // SAFETY: the caller guarantees the operands, the room, the endpoint and the result.
        unsafe {
            batch.push((&request.command, form), (request.operands, size));
            self.count_added(
                batch,
                to,
                (caller, form),
                (size, size),
                request.result,
                threaded,
            );
        }
    }

    /// Counts the operation that was just added to a batch. `bytes` are the bytes that count for the carrier, and the size of
    /// the result. Only then can the batch end the operation.
    ///
    /// # Safety
    /// `endpoint` is live; the result is NULL, or writable for its size until completion. `form` is the form of the command.
    #[inline(always)]
    pub(crate) unsafe fn count_added(
        &self,
        batch: &mut Batch,
        (endpoint, context): (NonNull<Endpoint>, &Context),
        (caller, form): (&Caller, &Form),
        bytes: (usize, usize),
        result: *mut c_void,
        threaded: bool,
    ) {
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let (own, peers) = context.raise_both(peer, threaded);
        if caller.expects(form) {
            let finished = caller.finished(Tag::new(endpoint, own, peers));
            // SAFETY: the caller guarantees that the result is writable until completion.
            unsafe { batch.expect((form, bytes.1), result.cast(), finished) };
        } else {
            batch.count(own, peers);
        }
        self.carried(Share::ONLY, (peer, Carrier::Message, bytes.0), false);
    }

    /// The fast path of a put or get that begins a batch. Returns `None`, before side effects, for anything unusual.
    ///
    /// # Safety
    /// The conditions of [`submit`](Self::submit); the peer's transfers travel as messages.
    #[inline(never)]
    #[allow(clippy::too_many_arguments, reason = "see `Completion::parts`")]
    pub(crate) unsafe fn begin_batch<const PUTS: bool>(
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
        let (puts, gets) = self.setup.message_limits;
        let (buffer, limit) = ((local, size), if PUTS { puts } else { gets });
        remote.open_transfer(address, buffer, limit, self.quick.virtual_addresses)?;
        let caller = Caller::plain(Completion::of(function, context, data), local);
        let request = Request::transfer(PUTS, local, remote, address, size);
        // SAFETY: the caller guarantees that `endpoint` is live and that the buffer is valid until completion.
        unsafe { self.try_tell(endpoint, &caller, &request) }
    }

    /// Adds a request to the current batch for its target, or to a new batch. Returns `None`, before side effects, if
    /// the peer failed, or if there is no room at the moment. Refuses the request if the lock is held for long.
    ///
    /// # Safety
    /// `endpoint` is live; the buffers of `request` are valid until completion.
    #[inline(never)]
    pub(crate) unsafe fn try_tell(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        request: &Request,
    ) -> Option<Status> {
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let context = &self.contexts[0];
        let locked = context.state.try_lock();
        let Some(mut state) = locked.or_else(|| self.lock_to_post(context)) else {
            return Some(Status::TEMP_OUT_OF_RESOURCE);
        };
        // The check is under the lock, because the messages to a failed peer end under it.
        if peer.failure().is_some() {
            return None;
        }
        let messages = state.messages.as_mut()?;
        let form = Form::known(request.command.what, request.size);
        // SAFETY: the line of a peer is removed before its endpoint.
        let (batch, full) = unsafe { messages.batch(endpoint, &form) }.ok()?;
        let threaded = self.setup.threaded;
        // SAFETY: the batch has room, and the caller guarantees the endpoint and the buffers.
        unsafe {
            self.add_to(
                batch,
                (endpoint, context),
                (caller, request, &form),
                threaded,
            )
        };
        drop(state);
        if full {
            self.poll_while_sending(context);
        }
        Some(Status::SUCCESS)
    }

    /// Posts a request as a message.
    ///
    /// # Safety
    /// The conditions of [`try_tell`](Self::try_tell).
    #[cold]
    pub(crate) unsafe fn tell(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        request: &Request,
    ) -> Status {
        // SAFETY: the caller guarantees that `endpoint` is live and that the buffers are valid until completion.
        if let Some(status) = unsafe { self.try_tell(endpoint, caller, request) } {
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
