//! Typed AMOs, of any number of elements. The quick paths are defined by `quick_entry`.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use plugin_api::{AtomicKind, AtomicOp, CompletionFn, Datatype, Endpoint, Handle, Module, Status};

use transport::Op;
use transport::hints::{branch, quick_entry};

use super::{completion, module_ref, submit, target};
use crate::guard::called;

pub(super) unsafe extern "C" fn atomic_query(
    module: *mut Module,
    datatype: u32,
    op: u32,
    kind: u32,
    max_count: *mut usize,
) -> Status {
    // SAFETY: the host passes NULL or a module from `init` that is not finalised.
    called("atomic_query", unsafe { module_ref(module) }, |module| {
        let max_count = NonNull::new(max_count)?;
        let datatype = Datatype::try_from(datatype).ok()?;
        let op = AtomicOp::try_from(op).ok()?;
        let kind = AtomicKind::try_from(kind).ok()?;
        let count = module.transport.atomic_count(kind, datatype, op);
        // SAFETY: `max_count` is not NULL; the host passes a writable pointer.
        unsafe { *max_count.as_ptr() = count.unwrap_or(0) };
        Some(count.map_or(Status::NOT_SUPPORTED, |_| Status::SUCCESS))
    })
}

quick_entry! {
    atomic_opv, direct_atomic_opv, other_atomic_opv, slow_atomic_opv, sends_atomics_by_fabric,
    (
        module: *mut Module,
        endpoint: *mut Endpoint,
        local_address: *const c_void,
        remote_address: u64,
        local_handle: *mut Handle,
        remote_handle: *const Handle,
        datatype: u32,
        op: u32,
        count: usize,
        callback: Option<CompletionFn>,
        context: *mut c_void,
        data: *mut c_void,
    ),
    WAY, {
        branch();
        if !local_handle.is_null() {
            return None;
        }
        // SAFETY: the host passes NULL or live objects of this module, and buffers that stay valid until completion;
        // `T` is that of the module's table.
        unsafe {
            let (module, peer, remote) = target(module, endpoint, remote_handle)?;
            module.transport.try_atomic_opv::<T, WAY>(
                peer,
                local_address,
                remote_address,
                remote,
                (datatype, op),
                count,
                completion(callback, context, data),
            )
        }
    } else {
        let make = |remote| {
            let datatype = Datatype::try_from(datatype).ok()?;
            let op = AtomicOp::try_from(op).ok()?;
            if local_address.is_null() && count > 0 {
                return None;
            }
            let (what, target) = ((AtomicKind::Update, datatype, op), (remote, remote_address));
            let operands = (local_address.cast_mut(), local_handle);
            Some(Op::atomic(what, target, count, operands, None))
        };
        let to = (module, endpoint, remote_handle);
        // SAFETY: the host passes NULL or live objects of this module, and keeps the endpoint live and the operands readable until completion.
        unsafe { submit("atomic_opv", to, completion(callback, context, data), make) }
    } -> Status
}

quick_entry! {
    atomic_fopv, direct_atomic_fopv, other_atomic_fopv, slow_atomic_fopv, sends_atomics_by_fabric,
    (
        module: *mut Module,
        endpoint: *mut Endpoint,
        local_address: *const c_void,
        result_address: *mut c_void,
        remote_address: u64,
        local_handle: *mut Handle,
        result_handle: *mut Handle,
        remote_handle: *const Handle,
        datatype: u32,
        op: u32,
        count: usize,
        callback: Option<CompletionFn>,
        context: *mut c_void,
        data: *mut c_void,
    ),
    WAY, {
        branch();
        if !local_handle.is_null() {
            return None;
        }
        branch();
        if !result_handle.is_null() {
            return None;
        }
        // SAFETY: the host passes NULL or live objects of this module, and buffers that stay valid until completion;
        // `T` is that of the module's table.
        unsafe {
            let (module, peer, remote) = target(module, endpoint, remote_handle)?;
            module.transport.try_atomic_fopv::<T, WAY>(
                peer,
                local_address,
                result_address,
                remote_address,
                remote,
                (datatype, op),
                count,
                completion(callback, context, data),
            )
        }
    } else {
        let make = |remote| {
            let datatype = Datatype::try_from(datatype).ok()?;
            let op = AtomicOp::try_from(op).ok()?;
            if result_address.is_null() && count > 0 {
                return None;
            }
            let (what, target) = ((AtomicKind::Fetch, datatype, op), (remote, remote_address));
            let operands = (local_address.cast_mut(), local_handle);
            let results = (result_address, result_handle);
            Some(Op::atomic(what, target, count, operands, Some(results)))
        };
        let to = (module, endpoint, remote_handle);
        // SAFETY: the host passes NULL or live objects of this module, and keeps the endpoint live, the operands readable and the result writable until completion.
        unsafe { submit("atomic_fopv", to, completion(callback, context, data), make) }
    } -> Status
}

pub(super) unsafe extern "C" fn atomic_cswapv(
    module: *mut Module,
    endpoint: *mut Endpoint,
    local_address: *const c_void,
    compare_address: *const c_void,
    result_address: *mut c_void,
    remote_address: u64,
    result_handle: *mut Handle,
    remote_handle: *const Handle,
    datatype: u32,
    callback: Option<CompletionFn>,
    context: *mut c_void,
    data: *mut c_void,
) -> Status {
    let make = |remote| {
        let datatype = Datatype::try_from(datatype).ok()?;
        let result = NonNull::new(result_address)?;
        if local_address.is_null() || compare_address.is_null() {
            return None;
        }
        // SAFETY: neither pointer is NULL; the host passes one readable element at each.
        let (value, compare) = unsafe {
            (
                element(local_address, datatype),
                element(compare_address, datatype),
            )
        };
        let (target, result) = ((remote, remote_address), (result.as_ptr(), result_handle));
        Some(Op::swap(datatype, target, (compare, value), result))
    };
    let to = (module, endpoint, remote_handle);
    // SAFETY: the host passes NULL or live objects of this module, and keeps the endpoint live and the result writable until completion.
    unsafe {
        submit(
            "atomic_cswapv",
            to,
            completion(callback, context, data),
            make,
        )
    }
}

/// One element, in the first bytes of a word.
///
/// # Safety
/// `address` holds a readable element of the type.
unsafe fn element(address: *const c_void, datatype: Datatype) -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: the caller guarantees an element at `address`; an element has at most 8 bytes.
    unsafe {
        ptr::copy_nonoverlapping(address.cast::<u8>(), bytes.as_mut_ptr(), datatype.size());
    }
    u64::from_ne_bytes(bytes)
}
