//! Atomics on one word.

use std::ffi::{c_int, c_void};

use btl_ofi::Op;
use btl_ofi::hints::{branch, quick_entry};
use plugin_api::{BtlAtomicOp, Status};

use super::call::{
    Btl, BtlCallback, BtlEndpoint, BtlHandle, Call, atomic, completion, size_of_word, word_flags,
};
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
        atomic("non-fetching atomic", btl, || {
            // SAFETY: Open MPI passes NULL or live pointers from this module, and a readable copy of the peer's handle.
            let call = unsafe { Call::new(btl, endpoint, remote_handle) }?;
            let may_release = locks::may_release(op, operand);
            if compares(op) {
                return None;
            }
            let (op, flags) = (op.try_into().ok()?, word_flags(flags, remote)?);
            let op = Op::word((op, flags), (call.handle, remote), operand, None)
                .with_completion(completion(callback, context, data));
            // SAFETY: the endpoint is live, and the operation uses no local memory.
            let status = unsafe { call.submit(&op) };
            if may_release {
                call.module.transport().send_now();
            }
            Some(call.settle("non-fetching atomic", status))
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
        atomic("fetching atomic", btl, || {
            // SAFETY: Open MPI passes NULL or live pointers from this module, and a readable copy of the peer's handle.
            let call = unsafe { Call::new(btl, endpoint, remote_handle) }?;
            if compares(op) {
                return None;
            }
            let (op, flags) = (op.try_into().ok()?, word_flags(flags, remote)?);
            let result = Some((local, local_handle.cast()));
            let op = Op::word((op, flags), (call.handle, remote), operand, result)
                .with_completion(completion(callback, context, data));
            // SAFETY: osc/rdma keeps 8 bytes at `local` writable, and does not use them, until completion.
            let status = unsafe { call.submit(&op) };
            Some(call.settle("fetching atomic", status))
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
        atomic("compare-and-swap", btl, || {
            let flags = word_flags(flags, remote)?;
            let own;
            // SAFETY: Open MPI passes NULL or live pointers from this module, and a readable copy of the peer's handle.
            let call = match unsafe { Call::new(btl, endpoint, remote_handle) } {
                Some(call) => call,
                None if !remote_handle.is_null() => return None,
                None => {
                    // SAFETY: Open MPI passes NULL or the live module.
                    let module = unsafe { Module::of(btl) }?;
                    let word = (remote, size_of_word(flags));
                    own = module.own_word(endpoint.cast(), word)?;
                    Call {
                        module,
                        endpoint: own.0,
                        handle: &own.1,
                    }
                }
            };
            let (target, result) = ((call.handle, remote), (local, local_handle.cast()));
            let op = Op::swap_word(flags, target, (compare, value), result)
                .with_completion(completion(callback, context, data));
            // SAFETY: osc/rdma keeps 8 bytes at `local` writable, and does not use them, until completion.
            let status = unsafe { call.submit(&op) };
            Some(call.settle("compare-and-swap", status))
        })
    } -> c_int
}
