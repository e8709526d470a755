//! Atomics of this transport on itself, executed by the calling thread.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use plugin_api::Status;

use crate::core::state::Core;
use crate::op::element::Elements;
use crate::op::request::{Caller, Operands, Request};
use crate::op::responder;
use crate::peer::endpoint::Endpoint;

impl Core {
    /// Executes an atomic on this transport's own memory.
    ///
    /// # Safety
    /// `endpoint` is live; the buffers of `atomic` are valid.
    pub(crate) unsafe fn perform(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        atomic: &Request,
    ) -> Status {
        let command = &atomic.command;
        let Some((kind, datatype, op)) = responder::decode(command.what) else {
            return Status::NOT_SUPPORTED;
        };
        let operands: *const c_void = match &atomic.operands {
            Operands::Value(value) => ptr::from_ref(value).cast(),
            Operands::Buffer(buffer) => *buffer,
        };
        self.change_here(endpoint, caller, atomic.size, || {
            let regions = self.registrar.regions();
            let known = regions.find(command.key, command.cookie);
            let known = known.ok_or(Status::PERM)?;
            let elements = Elements {
                datatype,
                op,
                count: command.count as usize,
                at: ptr::with_exposed_provenance_mut(command.address as usize),
                operands: operands.cast(),
                compare: command.compare,
                results: atomic.result.cast(),
                alone: known.by_commands,
            };
            // SAFETY: the caller guarantees that the buffers are valid; the lock on the regions keeps the
            // target registered.
            unsafe { responder::perform(known, kind, &elements) }
        })
    }
}
