//! Atomics: checking, and the general path by rings or by the provider. The quick paths are in `amo` (one word) and
//! `typed_amo`.

use std::ptr::NonNull;

use plugin_api::{AtomicKind, AtomicOp, Datatype, Status};

use crate::engine::transport::Transport;
use crate::mem::handle::Handle;
use crate::mem::local::check_local;
use crate::mem::rights;
use crate::op::atomic::Remote;
use crate::op::request::{Caller, Op, Operands, Request};
use crate::op::responder::{self, Command};
use crate::peer::endpoint::Endpoint;
use crate::peer::route::Atomics;

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

    /// Executes the atomic `op`, whichever way it goes. An error is the refusal of a side that is not host memory: it may be device memory.
    ///
    /// # Safety
    /// As for [`submit`](Self::submit).
    pub(crate) unsafe fn atomic(
        &self,
        endpoint: NonNull<Endpoint>,
        op: &Op<'_>,
        (kind, datatype, code, compare): (AtomicKind, Datatype, AtomicOp, u64),
    ) -> Result<Status, Status> {
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
        let remote = checked?;
        let caller = Caller::of(op);
        if count == 0 {
            return Ok(self.complete_empty(endpoint, caller));
        }
        let has_operands = op.value.is_some() || !op.local.is_null() || code == AtomicOp::Read;
        let has_results = kind == AtomicKind::Update || !op.result.is_null();
        if !has_operands || !has_results {
            return Ok(Status::BAD_PARAM);
        }
        let operands = operands(op);
        // SAFETY: the caller guarantees that `endpoint` is live and that the buffers are valid until completion.
        unsafe {
            if endpoint.as_ref().atomics() != Atomics::Fabric {
                let what = responder::what(kind, datatype as u32, code as u32);
                let atomic = Request {
                    command: Command {
                        compare,
                        ..Command::on(op.remote, op.address, what, count)
                    },
                    operands,
                    size: op.size,
                    result: op.result,
                };
                let mapped = op
                    .remote
                    .is_shared()
                    .then(|| self.mapped_atomic(endpoint, &caller, op.remote, &atomic));
                let mapped = mapped.flatten();
                if let Some(status) = mapped.or_else(|| self.command(endpoint, &caller, &atomic)) {
                    return Ok(status);
                }
            }
            Ok(self.post_atomic(
                endpoint,
                &caller,
                &remote,
                (kind, compare),
                operands,
                op.result,
            ))
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
}

fn operands(op: &Op<'_>) -> Operands {
    match op.value {
        Some(value) => Operands::Value(value),
        None => Operands::Buffer(op.local),
    }
}
