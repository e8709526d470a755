//! Operations that the calling thread makes itself, and those that have nothing to do.

use std::ptr::NonNull;

use plugin_api::Status;
use plugin_api::counters::Carrier;

use crate::core::context::{Context, State};
use crate::core::state::Core;
use crate::op::completion::Completion;
use crate::op::request::Caller;
use crate::peer::endpoint::Endpoint;

impl Core {
    /// Lets this thread change elements like the responder of peers' commands, under the lock of the first context, and
    /// completes the operation. If `change` fails, before side effects, the operation is refused with its error.
    #[inline(always)]
    pub(crate) fn change_here(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        size: usize,
        change: impl FnOnce() -> Result<(), Status>,
    ) -> Status {
        // SAFETY: the caller of the operation guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let context = &self.contexts[0];
        let mut state = context.state.lock();
        if let Some(status) = peer.failure() {
            return status;
        }
        let is_told = caller.completion.is_some() && !self.setup.answers_at_once;
        // Reserved before side effects, because the caller repeats an operation that was refused.
        if is_told && state.ready.try_reserve(1).is_err() {
            return Status::OUT_OF_RESOURCE;
        }
        if let Err(status) = change() {
            return status;
        }
        if is_told {
            let tag = context.raise(peer, self.setup.threaded);
            state.ready.push(caller.finished(tag));
        }
        let is_full = self.is_full_of_ready(&state);
        drop(state);
        self.count_made(peer, Carrier::Copy, size);
        if is_full {
            self.run_ready(context);
        }
        match caller.completion {
            Some(_) if !is_told => Status::COMPLETED,
            _ => Status::SUCCESS,
        }
    }

    /// Completes a transfer that this thread has already made.
    #[inline(always)]
    pub(crate) fn complete_copy(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        (carrier, size): (Carrier, usize),
    ) -> Status {
        // SAFETY: the caller of the operation guarantees that `endpoint` is live.
        self.count_made(unsafe { endpoint.as_ref() }, carrier, size);
        if self.setup.answers_at_once && caller.completion.is_some() {
            return Status::COMPLETED;
        }
        self.complete_empty(endpoint, *caller)
    }

    /// Counts an operation that this thread has made, and starts a check of the peers at intervals.
    #[inline(always)]
    fn count_made(&self, peer: &Endpoint, carrier: Carrier, size: usize) {
        let carried = (peer, carrier, size);
        if self.count_copy(self.context(), carried, self.setup.threaded) {
            self.check_peers_now_and_then();
        }
    }

    /// Whether the fast path makes a transfer by CMA if the ring does not make it. Otherwise the slow path makes the
    /// transfer, and tries the ring again.
    #[inline(always)]
    pub(crate) fn copies_quickly(&self, completion: Option<Completion>) -> bool {
        completion.is_none() || self.setup.answers_at_once
    }

    /// Completes an operation that needs no provider: immediately without callback, otherwise on the next progress call. If
    /// memory for the callback is missing, this is refused, and the caller repeats the transfer. The repetition has the
    /// same effect.
    #[cold]
    pub(crate) fn complete_empty(&self, endpoint: NonNull<Endpoint>, caller: Caller) -> Status {
        // SAFETY: the caller of the operation guarantees that `endpoint` is live.
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
        let tag = context.raise(peer, self.setup.threaded);
        state.ready.push(caller.finished(tag));
        let is_full = self.is_full_of_ready(&state);
        drop(state);
        if is_full {
            self.run_ready(context);
        }
        Status::SUCCESS
    }

    /// Whether `btl_ofi_progress_threshold` callbacks wait for the next progress. A caller that adds a callback then
    /// makes that progress, like a post. Otherwise a host that makes no progress would fill the memory.
    fn is_full_of_ready(&self, state: &State) -> bool {
        state.ready.len() >= self.setup.progress_threshold as usize
    }

    /// Runs callbacks that wait for the next progress. The caller holds no lock.
    #[cold]
    #[inline(never)]
    fn run_ready(&self, context: &Context) {
        if !self.must_not_poll(context) {
            self.poll(context);
        }
    }
}
