//! Atomics: checks, and the slow path by rings or by the provider. The fast paths are in `amo` (one word) and `typed_amo`
//! (vectors).

use std::ptr::NonNull;

use plugin_api::{AtomicKind, AtomicOp, Datatype, Status};

use crate::engine::transport::Transport;
use crate::mem::handle::Handle;
use crate::mem::local::check_local;
use crate::mem::rights;
use crate::op::request::{Atomic, Caller, Op, Operands, Request};
use crate::op::responder::{self, Command};
use crate::peer::endpoint::Endpoint;
use crate::peer::route::Atomics;

impl Transport {
    /// Checks the target of the atomic `op`: support, size, alignment, bounds and access. `remote` is the handle of its
    /// region, as a region of host memory.
    #[inline(always)]
    pub(crate) fn check_atomic(
        &self,
        op: &Op<'_>,
        remote: &Handle,
        (kind, datatype, code, compare): (AtomicKind, Datatype, AtomicOp, u64),
    ) -> Result<Atomic, Status> {
        let size = datatype.size();
        let count = op.size / size;
        let most = self.atomics.table.count(kind, datatype, code) as usize;
        if most == 0 {
            return Err(Status::NOT_SUPPORTED);
        }
        if count > most {
            return Err(Status::VALUE_OUT_OF_BOUNDS);
        }
        if !op.address.is_multiple_of(size as u64) {
            return Err(Status::BAD_PARAM);
        }
        let target = remote.target(op.address, op.size as u64, self.quick.virtual_addresses)?;
        // Nearly every region allows every access, and one comparison shows this.
        if !remote.is_open() && !rights::allow_atomic(remote.access(), kind, code) {
            return Err(Status::PERM);
        }
        let what = responder::what(kind, datatype as u32, code as u32);
        Ok(Atomic {
            request: Request {
                command: Command {
                    compare,
                    ..Command::on(remote, op.address, what, count)
                },
                operands: match op.value {
                    Some(value) => Operands::Value(value),
                    None => Operands::Buffer(op.local),
                },
                size: op.size,
                result: op.result,
            },
            target: target.address,
        })
    }

    /// Executes the atomic `op` by any route. An error means that the target or a local buffer is not host memory, and may
    /// be device memory.
    ///
    /// # Safety
    /// The conditions of [`submit`](Self::submit).
    pub(crate) unsafe fn atomic(
        &self,
        endpoint: NonNull<Endpoint>,
        op: &Op<'_>,
        what: (AtomicKind, Datatype, AtomicOp, u64),
    ) -> Result<Status, Status> {
        let atomic = self.check_atomic(op, op.remote, what)?;
        // SAFETY: the caller guarantees that the handles are NULL or readable.
        unsafe {
            check_local(op.local_handle, op.local, op.size)?;
            check_local(op.result_handle, op.result, op.size)?;
        }
        let caller = Caller::of(op);
        if op.size == 0 {
            return Ok(self.complete_empty(endpoint, caller));
        }
        let (kind, _, code, _) = what;
        let has_operands = op.value.is_some() || !op.local.is_null() || code == AtomicOp::Read;
        let has_results = kind == AtomicKind::Update || !op.result.is_null();
        if !has_operands || !has_results {
            return Ok(Status::BAD_PARAM);
        }
        // SAFETY: the caller guarantees that `endpoint` is live and that the buffers are valid until completion.
        unsafe {
            if endpoint.as_ref().atomics() != Atomics::Fabric && op.remote.is_shared() {
                let mapped = self.mapped_atomic(endpoint, &caller, op.remote, &atomic.request);
                if let Some(status) = mapped {
                    return Ok(status);
                }
            }
            Ok(self.atomic_by_route(endpoint, &caller, &atomic))
        }
    }

    /// Posts an atomic to the provider on any route, for device memory that the provider reaches.
    ///
    /// # Safety
    /// The conditions of [`submit`](Self::submit); `op` is an atomic from host memory, and `remote` the handle of its
    /// target as host memory.
    pub(crate) unsafe fn atomic_by_fabric(
        &self,
        endpoint: NonNull<Endpoint>,
        op: &Op<'_>,
        remote: &Handle,
        what: (AtomicKind, Datatype, AtomicOp, u64),
    ) -> Status {
        let atomic = match self.check_atomic(op, remote, what) {
            Ok(atomic) => atomic,
            Err(status) => return status,
        };
        // SAFETY: the caller guarantees that `endpoint` is live and that the buffers are valid until completion.
        unsafe {
            self.leave_route(endpoint.as_ref());
            self.post_atomic(endpoint, &Caller::of(op), &atomic)
        }
    }
}
