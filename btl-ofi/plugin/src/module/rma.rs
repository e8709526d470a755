//! Put and get. `put` and `get` try the fast path; if it declines, before any side effect, they call `slow_put` or
//! `slow_get`. The slow functions take the same arguments in the same order, so that the call is a tail call and the
//! fast path saves no registers for it.
//!
//! Constants, here and in `amo` and `typed_amo`: `T` means that calls may overlap, `K` that puts and gets to local
//! peers use CMA. A module's table has the functions of its case.

use std::ffi::c_void;

use plugin_api::{CompletionFn, Endpoint, Handle, Module, Status};

use transport::branch;

use super::{completion, module_ref, peer, remote};
use crate::guard::{guarded, need, use_argument};

pub(super) unsafe extern "C" fn put<const T: bool, const K: bool>(
    module: *mut Module,
    endpoint: *mut Endpoint,
    local_address: *mut c_void,
    remote_address: u64,
    local_handle: *mut Handle,
    remote_handle: *const Handle,
    size: usize,
    flags: u32,
    order: i32,
    callback: Option<CompletionFn>,
    context: *mut c_void,
    data: *mut c_void,
) -> Status {
    let fast = (|| {
        branch();
        if !local_handle.is_null() {
            return None;
        }
        // SAFETY: the host passes NULL or live objects of this module, and a buffer that stays valid until completion;
        // `T` and `K` are those of the module's table.
        unsafe {
            let (module, peer, remote) =
                (module_ref(module)?, peer(endpoint)?, remote(remote_handle)?);
            module.transport.try_put::<T, K>(
                peer,
                local_address,
                remote_address,
                remote,
                size,
                completion(callback, context, data),
            )
        }
    })();
    if let Some(status) = fast {
        return status;
    }
    // SAFETY: the arguments are the host's own, unchanged, and the fast path did nothing.
    unsafe {
        slow_put(
            module,
            endpoint,
            local_address,
            remote_address,
            local_handle,
            remote_handle,
            size,
            flags,
            order,
            callback,
            context,
            data,
        )
    }
}

/// Slow path: serves every put.
#[inline(never)]
unsafe extern "C" fn slow_put(
    module: *mut Module,
    endpoint: *mut Endpoint,
    local_address: *mut c_void,
    remote_address: u64,
    local_handle: *mut Handle,
    remote_handle: *const Handle,
    size: usize,
    flags: u32,
    order: i32,
    callback: Option<CompletionFn>,
    context: *mut c_void,
    data: *mut c_void,
) -> Status {
    use_argument((flags, order));
    guarded("put", || {
        // SAFETY: the host passes NULL or live objects of this module.
        let (module, peer, remote) = need!(unsafe { module_ref(module) }, peer(endpoint), unsafe {
            remote(remote_handle)
        });
        let completion = completion(callback, context, data);
        // SAFETY: the host keeps the endpoint live and the buffer readable until completion.
        unsafe {
            module.transport.put(
                peer,
                local_address,
                remote_address,
                local_handle,
                remote,
                size,
                completion,
            )
        }
    })
}

pub(super) unsafe extern "C" fn get<const T: bool, const K: bool>(
    module: *mut Module,
    endpoint: *mut Endpoint,
    local_address: *mut c_void,
    remote_address: u64,
    local_handle: *mut Handle,
    remote_handle: *const Handle,
    size: usize,
    flags: u32,
    order: i32,
    callback: Option<CompletionFn>,
    context: *mut c_void,
    data: *mut c_void,
) -> Status {
    let fast = (|| {
        branch();
        if !local_handle.is_null() {
            return None;
        }
        // SAFETY: the host passes NULL or live objects of this module, and a buffer that stays valid until completion;
        // `T` and `K` are those of the module's table.
        unsafe {
            let (module, peer, remote) =
                (module_ref(module)?, peer(endpoint)?, remote(remote_handle)?);
            module.transport.try_get::<T, K>(
                peer,
                local_address,
                remote_address,
                remote,
                size,
                completion(callback, context, data),
            )
        }
    })();
    if let Some(status) = fast {
        return status;
    }
    // SAFETY: the arguments are the host's own, unchanged, and the fast path did nothing.
    unsafe {
        slow_get(
            module,
            endpoint,
            local_address,
            remote_address,
            local_handle,
            remote_handle,
            size,
            flags,
            order,
            callback,
            context,
            data,
        )
    }
}

/// Slow path: serves every get.
#[inline(never)]
unsafe extern "C" fn slow_get(
    module: *mut Module,
    endpoint: *mut Endpoint,
    local_address: *mut c_void,
    remote_address: u64,
    local_handle: *mut Handle,
    remote_handle: *const Handle,
    size: usize,
    flags: u32,
    order: i32,
    callback: Option<CompletionFn>,
    context: *mut c_void,
    data: *mut c_void,
) -> Status {
    use_argument((flags, order));
    guarded("get", || {
        // SAFETY: the host passes NULL or live objects of this module.
        let (module, peer, remote) = need!(unsafe { module_ref(module) }, peer(endpoint), unsafe {
            remote(remote_handle)
        });
        let completion = completion(callback, context, data);
        // SAFETY: the host keeps the endpoint live and the buffer writable until completion.
        unsafe {
            module.transport.get(
                peer,
                local_address,
                remote_address,
                local_handle,
                remote,
                size,
                completion,
            )
        }
    })
}
