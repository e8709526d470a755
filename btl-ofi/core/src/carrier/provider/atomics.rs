//! Atomics by the provider, on the slow path.

use crate::carrier::provider::post::Posting;
use crate::core::state::Core;
use crate::op::request::{Atomic, Caller, Operands};
use crate::peer::endpoint::Endpoint;
use plugin_api::{AtomicKind, Status};
use std::ffi::c_void;
use std::ptr::{self, NonNull};

impl Core {
    /// Posts an atomic to the provider.
    ///
    /// # Safety
    /// `endpoint` is live; the buffers are valid until completion.
    pub(crate) unsafe fn post_atomic(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        atomic: &Atomic,
    ) -> Status {
        let updates = atomic.request.command.what >> 16 == AtomicKind::Update as u32;
        // SAFETY: the caller guarantees that `endpoint` is live and that the buffers are valid until completion; the
        // scratch memory lives as long as the provider, and is as large as the largest update.
        unsafe {
            match updates {
                true if self.policy.updates_fetch => {
                    self.fetch(endpoint, caller, atomic, self.scratch.pointer())
                }
                true => self.update(endpoint, caller, atomic),
                false => self.fetch(endpoint, caller, atomic, atomic.request.result),
            }
        }
    }

    /// Posts an update to the provider.
    ///
    /// # Safety
    /// `endpoint` is live; the operands are valid until completion.
    #[inline(never)]
    unsafe fn update(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        atomic: &Atomic,
    ) -> Status {
        let (request, needs_record) = (&atomic.request, needs_record(atomic));
        let key = request.command.key;
        // SAFETY: the caller guarantees that `endpoint` is live and that the operands are valid until completion.
        unsafe {
            // Requests delivery, because a completed update must be visible at the target.
            self.post(endpoint, (caller, request.size), needs_record, |posting| {
                let operands = operands(posting, atomic);
                let message = posting.state.message.update_of(
                    (operands, request.command.count as usize),
                    (endpoint.as_ref().address, atomic.target, key),
                    atomic.codes(),
                    posting.pointer,
                );
                let context = posting.context;
                (context.calls.update)(context.tx, message, self.quick.delivered)
            })
        }
    }

    /// Posts an atomic that returns the old values to `result`: a fetch, an update that ignores them, or a
    /// compare-and-swap.
    ///
    /// # Safety
    /// `endpoint` is live; operands and result are valid until completion.
    #[inline(never)]
    unsafe fn fetch(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        atomic: &Atomic,
        result: *mut c_void,
    ) -> Status {
        let (request, needs_record) = (&atomic.request, needs_record(atomic));
        let (command, (datatype, op)) = (&request.command, atomic.codes());
        // SAFETY: the caller guarantees that `endpoint` is live and that operands and result are valid until
        // completion; operands by value are in the operation record. The fetch completes when the old value
        // arrives, after the target applied the operation, so it needs no delivery flags.
        unsafe {
            self.post(endpoint, (caller, request.size), needs_record, |posting| {
                let (context, none) = (posting.context, ptr::null_mut());
                let peer = endpoint.as_ref().address;
                let (count, at, key) = (command.count as usize, atomic.target, command.key);
                let operands = match operands(posting, atomic) {
                    // A plain read has no operands, but providers require a readable buffer.
                    buffer if buffer.is_null() => result,
                    buffer => buffer,
                };
                let pointer = posting.pointer;
                if atomic.compares() {
                    let with = posting.compare(command.compare);
                    return (context.calls.compare)(
                        context.tx, operands, count, none, with, none, result, none, peer, at, key,
                        datatype, op, pointer,
                    );
                }
                (context.calls.fetch)(
                    context.tx, operands, count, none, result, none, peer, at, key, datatype, op,
                    pointer,
                )
            })
        }
    }
}

/// Whether an atomic's post needs an operation record: for an operand that is passed by value, or the value to compare with.
fn needs_record(atomic: &Atomic) -> bool {
    atomic.compares() || matches!(atomic.request.operands, Operands::Value(_))
}

/// The operands of an atomic, for the provider.
///
/// # Safety
/// The operation has a record if it [needs](needs_record) one.
unsafe fn operands(posting: &Posting<'_>, atomic: &Atomic) -> *mut c_void {
    match atomic.request.operands {
        // SAFETY: the caller guarantees the record.
        Operands::Value(value) => unsafe { posting.operand(value) },
        Operands::Buffer(buffer) => buffer.cast_mut(),
    }
}
