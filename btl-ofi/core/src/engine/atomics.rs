//! Atomics: checking, and the general path by rings or by the provider. The quick paths are in `amo` (one word) and
//! `typed_amo`.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use plugin_api::{AtomicKind, AtomicOp, Datatype, Status};

use crate::engine::local::check_local;
use crate::engine::post::{Caller, Needs};
use crate::engine::ring_atomics::AtomicCommand;
use crate::engine::transport::Transport;
use crate::mem::handle::{Handle, Target};
use crate::mem::rights;
use crate::op::request::Op;
use crate::op::request::Operands;
use crate::op::responder;
use crate::peer::endpoint::{Endpoint, WAS_READ};
use crate::peer::route::Atomics;

/// The target's part of an atomic, checked.
#[derive(Clone, Copy)]
pub(crate) struct Remote {
    pub(crate) target: Target,
    pub(crate) datatype: Datatype,
    pub(crate) op: AtomicOp,
    pub(crate) count: usize,
}

impl Remote {
    /// Bytes of the elements.
    fn size(&self) -> usize {
        self.count * self.datatype.size()
    }
}

impl Transport {
    /// Checks the target of an atomic: support, size, alignment, bounds and access.
    #[inline(always)]
    pub(crate) fn remote(
        &self,
        kind: AtomicKind,
        handle: &Handle,
        address: u64,
        datatype: Datatype,
        op: AtomicOp,
        count: usize,
    ) -> Result<Remote, Status> {
        let most = self.atomics.table.count(kind, datatype, op) as usize;
        if most == 0 {
            return Err(Status::NOT_SUPPORTED);
        }
        if count > most {
            return Err(Status::VALUE_OUT_OF_BOUNDS);
        }
        let size = datatype.size();
        if !address.is_multiple_of(size as u64) {
            return Err(Status::BAD_PARAM);
        }
        let target = handle.target(address, (count * size) as u64, self.quick.virtual_addresses)?;
        // Nearly every region allows everything, which one comparison tells.
        if !handle.is_open() && !rights::allow_atomic(handle.access(), kind, op) {
            return Err(Status::PERM);
        }
        Ok(Remote {
            target,
            datatype,
            op,
            count,
        })
    }

    /// Executes the atomic `op`, whichever way it goes.
    ///
    /// # Safety
    /// As for [`submit`](Self::submit).
    pub(crate) unsafe fn atomic(
        &self,
        endpoint: NonNull<Endpoint>,
        op: &Op<'_>,
        (kind, datatype, code, compare): (AtomicKind, Datatype, AtomicOp, u64),
    ) -> Status {
        let size = datatype.size();
        let count = op.size / size;
        let checked = self
            .remote(kind, op.remote, op.address, datatype, code, count)
            .and_then(|remote| {
                // SAFETY: the caller guarantees that the handles are NULL or readable.
                unsafe {
                    check_local(op.local_handle, op.local, op.size)?;
                    check_local(op.result_handle, op.result, op.size)?;
                }
                Ok(remote)
            });
        let remote = match checked {
            Ok(remote) => remote,
            // A side that is not host memory may be device memory.
            // SAFETY: the caller guarantees that `endpoint` is live, the buffers are valid until completion, and the
            // handles are NULL or readable.
            Err(status) => return unsafe { self.submit_device(endpoint, status, op) },
        };
        let caller = Caller::of(op);
        if count == 0 {
            return self.complete_empty(endpoint, caller);
        }
        let has_operands = op.value.is_some() || !op.local.is_null() || code == AtomicOp::Read;
        let has_results = kind == AtomicKind::Update || !op.result.is_null();
        if !has_operands || !has_results {
            return Status::BAD_PARAM;
        }
        let operands = operands(op);
        // SAFETY: the caller guarantees that `endpoint` is live and that the buffers are valid until completion.
        unsafe {
            if endpoint.as_ref().atomics() != Atomics::Fabric {
                let atomic = AtomicCommand {
                    what: responder::what(kind, datatype as u32, code as u32),
                    count,
                    size: op.size,
                    address: op.address,
                    key: remote.target.key,
                    cookie: op.remote.cookie(),
                    operands,
                    compare,
                    result: op.result,
                };
                let mapped = op
                    .remote
                    .is_shared()
                    .then(|| self.mapped_atomic(endpoint, &caller, op.remote, &atomic));
                let mapped = mapped.flatten();
                if let Some(status) = mapped.or_else(|| self.command(endpoint, &caller, &atomic)) {
                    return status;
                }
            }
            self.post_atomic(
                endpoint,
                &caller,
                &remote,
                (kind, compare),
                operands,
                op.result,
            )
        }
    }

    /// Posts an atomic to the provider, whatever the route is: on device memory that the provider reaches.
    ///
    /// # Safety
    /// As for [`submit`](Self::submit); `op` is an atomic from host memory, and `remote` the handle of its target as
    /// host memory.
    pub(crate) unsafe fn atomic_by_fabric(
        &self,
        endpoint: NonNull<Endpoint>,
        op: &Op<'_>,
        remote: &Handle,
        (kind, datatype, code, compare): (AtomicKind, Datatype, AtomicOp, u64),
    ) -> Status {
        let count = op.size / datatype.size();
        let remote = match self.remote(kind, remote, op.address, datatype, code, count) {
            Ok(remote) => remote,
            Err(status) => return status,
        };
        let (caller, operands) = (Caller::of(op), operands(op));
        // SAFETY: the caller guarantees that `endpoint` is live and that the buffers are valid until completion.
        unsafe {
            self.leave_route(endpoint.as_ref());
            self.post_atomic(
                endpoint,
                &caller,
                &remote,
                (kind, compare),
                operands,
                op.result,
            )
        }
    }

    /// Posts an atomic to the provider.
    ///
    /// # Safety
    /// `endpoint` is live; the buffers are valid until completion.
    unsafe fn post_atomic(
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
                let scratch = self.atomics.scratch.pointer();
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
        let (scratch, address) = (self.atomics.scratch.pointer(), peer.address);
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

fn operands(op: &Op<'_>) -> Operands {
    match op.value {
        Some(value) => Operands::Value(value),
        None => Operands::Buffer(op.local),
    }
}
