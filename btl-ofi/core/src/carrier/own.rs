//! Operations of this transport on itself, executed by the calling thread.

use std::ffi::c_void;
use std::ptr::NonNull;

use plugin_api::Status;
use plugin_api::counters::Carrier;

use crate::core::state::Core;
use crate::op::element::Elements;
use crate::op::request::{Caller, Operands, Request};
use crate::op::responder;
use crate::peer::endpoint::Endpoint;

impl Core {
    /// Executes an atomic to this transport itself.
    ///
    /// # Safety
    /// `endpoint` is live; the buffers of `atomic` are valid.
    pub(crate) unsafe fn perform(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        atomic: &Request,
    ) -> Status {
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let context = &self.contexts[0];
        // Held during the execution, as by the responders of peers' commands.
        let mut state = context.state.lock();
        if let Some(status) = peer.failure() {
            return status;
        }
        let is_told = caller.completion.is_some() && !self.setup.answers_at_once;
        // Before side effects: the caller repeats an operation that was refused.
        if is_told && state.ready.try_reserve(1).is_err() {
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
        {
            let regions = self.registrar.regions();
            let Some(known) = regions.find(atomic.command.key, atomic.command.cookie) else {
                return Status::PERM;
            };
            let elements = Elements {
                datatype,
                op,
                count: atomic.command.count as usize,
                at: std::ptr::with_exposed_provenance_mut(atomic.command.address as usize),
                operands: operands.cast(),
                compare: atomic.command.compare,
                results: atomic.result.cast(),
                alone: known.by_commands,
            };
            // SAFETY: the caller guarantees that the buffers are valid; the lock on the regions keeps the
            // target registered.
            let done = unsafe { responder::perform(known, kind, &elements) };
            if let Err(status) = done {
                return status;
            }
        }
        if is_told {
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
        match caller.completion {
            Some(_) if !is_told => Status::COMPLETED,
            _ => Status::SUCCESS,
        }
    }
}
