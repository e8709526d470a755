//! Atomics by the provider, on the slow path.

use crate::carrier::provider::post::Needs;
use crate::core::state::Core;
use crate::mem::handle::Target;
use crate::op::atomic::Remote;
use crate::op::request::Caller;
use crate::op::request::Operands;
use crate::peer::endpoint::{Endpoint, WAS_READ};
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
        remote: &Remote,
        (kind, compare): (AtomicKind, u64),
        operands: Operands,
        result: *mut c_void,
    ) -> Status {
        // SAFETY: the caller guarantees that `endpoint` is live and that the buffers are valid until completion.
        unsafe {
            match (kind, operands) {
                (AtomicKind::Compare, Operands::Value(value)) => {
                    self.compare(endpoint, caller, remote, compare, value, result)
                }
                (AtomicKind::Update, operands) => self.update(endpoint, caller, remote, operands),
                (_, operands) => self.fetch(endpoint, caller, remote, operands, result),
            }
        }
    }

    /// Posts an update to the provider.
    ///
    /// # Safety
    /// `endpoint` is live; the operands are valid until completion.
    #[inline(never)]
    pub(crate) unsafe fn update(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        remote: &Remote,
        operands: Operands,
    ) -> Status {
        // SAFETY: the caller guarantees that `endpoint` is live and that the operands are valid until
        // completion; the scratch memory lives as long as the provider.
        unsafe {
            if self.policy.updates_fetch {
                // The scratch memory is as large as the largest update.
                let scratch = self.scratch.pointer();
                return self.fetch(endpoint, caller, remote, operands, scratch);
            }
            let needs = Needs {
                record: matches!(operands, Operands::Value(_)),
                alone: false,
            };
            // Requests delivery, because a completed update must be visible at the target.
            self.post(endpoint, (caller, remote.size()), needs, |posting| {
                let operands = match operands {
                    Operands::Value(value) => posting.operand(value),
                    Operands::Buffer(buffer) => buffer.cast_mut(),
                };
                let Target { address, key } = remote.target;
                let message = posting.state.message.update_of(
                    (operands, remote.count),
                    (endpoint.as_ref().address, address, key),
                    (remote.datatype as u32, remote.op as u32),
                    posting.pointer,
                );
                let context = posting.context;
                (context.calls.update)(context.tx, message, self.quick.delivered)
            })
        }
    }

    /// Whether a read from the peer was posted before; posts one if not. A fetch that must be alone on its
    /// context waits for that read to complete, because the first call returns false with the read outstanding.
    fn was_read(&self, endpoint: NonNull<Endpoint>, remote: &Remote) -> bool {
        // SAFETY: the caller of the operation guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        if peer.has(WAS_READ) {
            return true;
        }
        let caller = Caller {
            completion: None,
            local_address: ptr::null_mut(),
            local_handle: ptr::null_mut(),
        };
        let (scratch, address) = (self.scratch.pointer(), peer.address);
        let size = remote.datatype.size();
        // SAFETY: the endpoint is live; the scratch memory has room for one element.
        let status = unsafe {
            self.post(endpoint, (&caller, size), Needs::default(), |posting| {
                let (context, none) = (posting.context, ptr::null_mut());
                let Target { address: at, key } = remote.target;
                let pointer = posting.pointer;
                (context.calls.read)(context.tx, scratch, size, none, address, at, key, pointer)
            })
        };
        if status.is_ok() {
            peer.mark(WAS_READ);
        }
        false
    }

    /// Posts a fetching atomic to the provider.
    ///
    /// # Safety
    /// `endpoint` is live; operands and result are valid until completion.
    #[inline(never)]
    pub(crate) unsafe fn fetch(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        remote: &Remote,
        operands: Operands,
        result: *mut c_void,
    ) -> Status {
        let alone = self.policy.fetch_alone;
        if alone && !self.was_read(endpoint, remote) {
            return Status::TEMP_OUT_OF_RESOURCE;
        }
        let needs = Needs {
            record: matches!(operands, Operands::Value(_)),
            alone,
        };
        // SAFETY: the caller guarantees that `endpoint` is live and that operands and result are valid until
        // completion; operands by value are in the operation record. The fetch completes when the old value
        // arrives, after the target applied the operation, so it needs no delivery flags.
        unsafe {
            self.post(endpoint, (caller, remote.size()), needs, |posting| {
                let operands = match operands {
                    Operands::Value(value) => posting.operand(value),
                    // A plain read has no operands, but providers require a readable buffer.
                    Operands::Buffer(buffer) if buffer.is_null() => result,
                    Operands::Buffer(buffer) => buffer.cast_mut(),
                };
                let context = posting.context;
                (context.calls.fetch)(
                    context.tx,
                    operands,
                    remote.count,
                    ptr::null_mut(),
                    result,
                    ptr::null_mut(),
                    endpoint.as_ref().address,
                    remote.target.address,
                    remote.target.key,
                    remote.datatype as u32,
                    remote.op as u32,
                    posting.pointer,
                )
            })
        }
    }

    /// Posts a compare-and-swap to the provider.
    ///
    /// # Safety
    /// `endpoint` is live; `result` is writable until completion.
    #[inline(never)]
    pub(crate) unsafe fn compare(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        remote: &Remote,
        compare: u64,
        value: u64,
        result: *mut c_void,
    ) -> Status {
        // SAFETY: the caller guarantees that `endpoint` is live and that `result` is writable until completion;
        // both values are in the operation record.
        unsafe {
            let alone = self.policy.fetch_alone;
            if alone && !self.was_read(endpoint, remote) {
                return Status::TEMP_OUT_OF_RESOURCE;
            }
            let needs = Needs {
                record: true,
                alone,
            };
            self.post(endpoint, (caller, remote.size()), needs, |posting| {
                let context = posting.context;
                (context.calls.compare)(
                    context.tx,
                    posting.operand(value),
                    1,
                    ptr::null_mut(),
                    posting.compare(compare),
                    ptr::null_mut(),
                    result,
                    ptr::null_mut(),
                    endpoint.as_ref().address,
                    remote.target.address,
                    remote.target.key,
                    remote.datatype as u32,
                    remote.op as u32,
                    posting.pointer,
                )
            })
        }
    }
}
