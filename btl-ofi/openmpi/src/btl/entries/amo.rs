//! Atomics on one word.

use std::ffi::{c_int, c_void};

use btl_ofi::Op;
use btl_ofi::hints::{branch, quick_entry};
use plugin_api::{BtlAtomicOp, OpFlags, Status};

use super::call::{Btl, BtlCallback, BtlEndpoint, BtlHandle, Call, completion, operation};
use super::locks;
use crate::bindings as ffi;
use crate::btl::module::Module;
use crate::guard::use_argument;

/// Whether an operation is one that osc/rdma must make itself: it passes a minimum or maximum of unsigned words as one of
/// signed words, and does not ask for the declared operations.
#[inline(always)]
fn compares(op: ffi::mca_btl_base_atomic_op_t) -> bool {
    op == BtlAtomicOp::Min as ffi::mca_btl_base_atomic_op_t
        || op == BtlAtomicOp::Max as ffi::mca_btl_base_atomic_op_t
}

quick_entry! {
    atomic_op, direct_atomic_op, other_atomic_op, slow_atomic_op, sends_atomics_by_fabric,
    (
    btl: Btl,
    endpoint: BtlEndpoint,
    remote: u64,
    remote_handle: BtlHandle,
    op: ffi::mca_btl_base_atomic_op_t,
    operand: u64,
    flags: c_int,
    order: c_int,
    callback: BtlCallback,
    context: *mut c_void,
    data: *mut c_void,
    ),
    WAY, {
        branch();
        if locks::may_release(op, operand) || compares(op) {
            return None;
        }
        // SAFETY: Open MPI passes NULL or live pointers from this module, a readable copy of the peer's handle, and buffers
        // that stay valid until completion; `T` is that of the module's table.
        let (call, status) = unsafe {
            let call = Call::new(btl, endpoint, remote_handle)?;
            let status = call.module.transport().try_atomic_op::<T, WAY>(call.endpoint, remote, call.handle, (op, flags as u32), operand, completion(callback, context, data));
            (call, status?)
        };
        Some(if status == Status::SUCCESS { 0 } else { call.settle("non-fetching atomic", status) })
    } else {
        use_argument(order);
        operation("non-fetching atomic", btl, || {
            // SAFETY: Open MPI passes NULL or live pointers from this module, and a readable copy of the peer's handle.
            let Some(call) = (unsafe { Call::new(btl, endpoint, remote_handle) }) else {
                return Ok(Status::NOT_SUPPORTED.0);
            };
            let may_release = locks::may_release(op, operand);
            let (false, Ok(op), Some(flags)) = (
                compares(op),
                op.try_into(),
                OpFlags::from_bits(flags as u32),
            ) else {
                return Ok(Status::NOT_SUPPORTED.0);
            };
            if Call::is_misaligned(remote, flags) {
                return Ok(Status::NOT_SUPPORTED.0);
            }
            let done = completion(callback, context, data);
            // SAFETY: the endpoint is live, and the operation uses no local memory.
            let status = unsafe {
                let op = Op::word((op, flags), (call.handle, remote), operand, None);
                call.submit(&op.with_completion(done))
            };
            if may_release {
                call.module.transport().send_now();
            }
            Ok(call.settle("non-fetching atomic", status))
        })
    } -> c_int
}

quick_entry! {
    atomic_fop, direct_atomic_fop, other_atomic_fop, slow_atomic_fop, sends_atomics_by_fabric,
    (
    btl: Btl,
    endpoint: BtlEndpoint,
    local: *mut c_void,
    remote: u64,
    local_handle: BtlHandle,
    remote_handle: BtlHandle,
    op: ffi::mca_btl_base_atomic_op_t,
    operand: u64,
    flags: c_int,
    order: c_int,
    callback: BtlCallback,
    context: *mut c_void,
    data: *mut c_void,
    ),
    WAY, {
        branch();
        if compares(op) {
            return None;
        }
        // SAFETY: Open MPI passes NULL or live pointers from this module, a readable copy of the peer's handle, and buffers
        // that stay valid until completion; `T` is that of the module's table.
        let (call, status) = unsafe {
            let call = Call::new(btl, endpoint, remote_handle)?;
            let status = call.module.transport().try_atomic_fop::<T, WAY>(call.endpoint, local, remote, call.handle, (op, flags as u32), operand, completion(callback, context, data));
            (call, status?)
        };
        Some(if status == Status::SUCCESS { 0 } else { call.settle("fetching atomic", status) })
    } else {
        use_argument(order);
        operation("fetching atomic", btl, || {
            // SAFETY: Open MPI passes NULL or live pointers from this module, and a readable copy of the peer's handle.
            let Some(call) = (unsafe { Call::new(btl, endpoint, remote_handle) }) else {
                return Ok(Status::NOT_SUPPORTED.0);
            };
            let (false, Ok(op), Some(flags)) = (
                compares(op),
                op.try_into(),
                OpFlags::from_bits(flags as u32),
            ) else {
                return Ok(Status::NOT_SUPPORTED.0);
            };
            if Call::is_misaligned(remote, flags) {
                return Ok(Status::NOT_SUPPORTED.0);
            }
            let done = completion(callback, context, data);
            // SAFETY: osc/rdma keeps 8 bytes at `local` writable, and does not use them, until completion.
            let status = unsafe {
                let result = Some((local, local_handle.cast()));
                let op = Op::word((op, flags), (call.handle, remote), operand, result);
                call.submit(&op.with_completion(done))
            };
            Ok(call.settle("fetching atomic", status))
        })
    } -> c_int
}

quick_entry! {
    atomic_cswap, direct_atomic_cswap, other_atomic_cswap, slow_atomic_cswap, sends_atomics_by_fabric,
    (
    btl: Btl,
    endpoint: BtlEndpoint,
    local: *mut c_void,
    remote: u64,
    local_handle: BtlHandle,
    remote_handle: BtlHandle,
    compare: u64,
    value: u64,
    flags: c_int,
    order: c_int,
    callback: BtlCallback,
    context: *mut c_void,
    data: *mut c_void,
    ),
    WAY, {
        branch();
        // SAFETY: Open MPI passes NULL or live pointers from this module, a readable copy of the peer's handle, and buffers
        // that stay valid until completion; `T` is that of the module's table.
        let (call, status) = unsafe {
            let call = Call::new(btl, endpoint, remote_handle)?;
            let status = call.module.transport().try_atomic_cswap::<T, WAY>(call.endpoint, local, remote, call.handle, (compare, value), flags as u32, completion(callback, context, data));
            (call, status?)
        };
        Some(if status == Status::SUCCESS { 0 } else { call.settle("compare-and-swap", status) })
    } else {
        use_argument(order);
        operation("compare-and-swap", btl, || {
            let Some(flags) = OpFlags::from_bits(flags as u32) else {
                return Ok(Status::NOT_SUPPORTED.0);
            };
            if Call::is_misaligned(remote, flags) {
                return Ok(Status::NOT_SUPPORTED.0);
            }
            let own;
            // SAFETY: Open MPI passes NULL or live pointers from this module, and a readable copy of the peer's handle.
            let call = match unsafe { Call::new(btl, endpoint, remote_handle) } {
                Some(call) => call,
                None if !remote_handle.is_null() => return Ok(Status::NOT_SUPPORTED.0),
                None => {
                    // SAFETY: Open MPI passes NULL or the live module.
                    let module = unsafe { Module::of(btl) };
                    let size = if flags.contains(OpFlags::WORD_32) {
                        4
                    } else {
                        8
                    };
                    match module.and_then(|m| m.own_word(endpoint.cast(), (remote, size))) {
                        Some((module, endpoint, handle)) => {
                            own = handle;
                            let handle = &own;
                            Call {
                                module,
                                endpoint,
                                handle,
                            }
                        }
                        None => return Ok(Status::NOT_SUPPORTED.0),
                    }
                }
            };
            let done = completion(callback, context, data);
            // SAFETY: osc/rdma keeps 8 bytes at `local` writable, and does not use them, until completion.
            let status = unsafe {
                let (target, result) = ((call.handle, remote), (local, local_handle.cast()));
                let op = Op::swap_word(flags, target, (compare, value), result);
                call.submit(&op.with_completion(done))
            };
            Ok(call.settle("compare-and-swap", status))
        })
    } -> c_int
}
