//! The BTL's AMOs, on one word of 32 or 64 bits. The quick paths are defined by `quick_entry`.

use std::ffi::c_void;
use std::ptr::NonNull;

use plugin_api::{BtlAtomicOp, CompletionFn, Endpoint, Handle, Module, OpFlags, Status};

use transport::Op;
use transport::hints::{branch, quick_entry};

use super::{completion, submit, target};
use crate::guard::use_argument;

quick_entry! {
    atomic_op, direct_atomic_op, other_atomic_op, slow_atomic_op, sends_atomics_by_fabric, atomic_op_no_callback for no callback,
    (
        module: *mut Module,
        endpoint: *mut Endpoint,
        remote_address: u64,
        remote_handle: *const Handle,
        op: u32,
        operand: u64,
        flags: u32,
        order: i32,
        callback: Option<CompletionFn>,
        context: *mut c_void,
        data: *mut c_void,
    ),
    WAY, {
        // SAFETY: the host passes NULL or live objects of this module, and a result buffer, if any, that stays valid
        // until completion; `T` is that of the module's table.
        unsafe {
            let (module, peer, remote) = target(module, endpoint, remote_handle)?;
            module.transport.try_atomic_op::<T, WAY>(
                peer,
                remote_address,
                remote,
                (op, flags),
                operand,
                completion(callback, context, data),
            )
        }
    } else {
        use_argument(order);
        let make = |remote| {
            let op = BtlAtomicOp::try_from(op).ok()?;
            let flags = OpFlags::from_bits(flags)?;
            Some(Op::word((op, flags), (remote, remote_address), operand, None))
        };
        let to = (module, endpoint, remote_handle);
        // SAFETY: the host passes NULL or live objects of this module, and keeps the endpoint live until completion.
        unsafe { submit("atomic_op", to, completion(callback, context, data), make) }
    } -> Status
}

quick_entry! {
    atomic_fop, direct_atomic_fop, other_atomic_fop, slow_atomic_fop, sends_atomics_by_fabric,
    (
        module: *mut Module,
        endpoint: *mut Endpoint,
        local_address: *mut c_void,
        remote_address: u64,
        local_handle: *mut Handle,
        remote_handle: *const Handle,
        op: u32,
        operand: u64,
        flags: u32,
        order: i32,
        callback: Option<CompletionFn>,
        context: *mut c_void,
        data: *mut c_void,
    ),
    WAY, {
        branch();
        if !local_handle.is_null() {
            return None;
        }
        // SAFETY: the host passes NULL or live objects of this module, and a result buffer, if any, that stays valid
        // until completion; `T` is that of the module's table.
        unsafe {
            let (module, peer, remote) = target(module, endpoint, remote_handle)?;
            module.transport.try_atomic_fop::<T, WAY>(
                peer,
                local_address,
                remote_address,
                remote,
                (op, flags),
                operand,
                completion(callback, context, data),
            )
        }
    } else {
        use_argument(order);
        let make = |remote| {
            let result = NonNull::new(local_address)?;
            let op = BtlAtomicOp::try_from(op).ok()?;
            let flags = OpFlags::from_bits(flags)?;
            let result = Some((result.as_ptr(), local_handle));
            Some(Op::word((op, flags), (remote, remote_address), operand, result))
        };
        let to = (module, endpoint, remote_handle);
        // SAFETY: the host passes NULL or live objects of this module, and keeps the endpoint live and the result writable until completion.
        unsafe { submit("atomic_fop", to, completion(callback, context, data), make) }
    } -> Status
}

quick_entry! {
    atomic_cswap, direct_atomic_cswap, other_atomic_cswap, slow_atomic_cswap, sends_atomics_by_fabric,
    (
        module: *mut Module,
        endpoint: *mut Endpoint,
        local_address: *mut c_void,
        remote_address: u64,
        local_handle: *mut Handle,
        remote_handle: *const Handle,
        compare: u64,
        value: u64,
        flags: u32,
        order: i32,
        callback: Option<CompletionFn>,
        context: *mut c_void,
        data: *mut c_void,
    ),
    WAY, {
        branch();
        if !local_handle.is_null() {
            return None;
        }
        // SAFETY: the host passes NULL or live objects of this module, and a result buffer, if any, that stays valid
        // until completion; `T` is that of the module's table.
        unsafe {
            let (module, peer, remote) = target(module, endpoint, remote_handle)?;
            module.transport.try_atomic_cswap::<T, WAY>(
                peer,
                local_address,
                remote_address,
                remote,
                (compare, value),
                flags,
                completion(callback, context, data),
            )
        }
    } else {
        use_argument(order);
        let make = |remote| {
            let result = NonNull::new(local_address)?;
            let flags = OpFlags::from_bits(flags)?;
            let (target, result) = ((remote, remote_address), (result.as_ptr(), local_handle));
            Some(Op::swap_word(flags, target, (compare, value), result))
        };
        let to = (module, endpoint, remote_handle);
        // SAFETY: the host passes NULL or live objects of this module, and keeps the endpoint live and the result writable until completion.
        unsafe { submit("atomic_cswap", to, completion(callback, context, data), make) }
    } -> Status
}
