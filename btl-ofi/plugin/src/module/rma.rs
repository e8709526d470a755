//! Puts and gets: what is ordinary at once, the rest in functions of its own with the same arguments, so
//! that the former keep nothing for the latter.
//!
//! Constants, here and in `atomics`: `T` is whether calls may overlap, `K` whether the kernel copies; a module
//! has the table of its case.

use std::ffi::c_void;

use plugin_api::{CompletionFn, Endpoint, Handle, Module, Status};

use transport::branch;

use super::{completion, known, peer, remote};
use crate::guard::{guarded, kept, need};

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
    let tried = (|| {
        branch();
        if !local_handle.is_null() {
            return None;
        }
        // SAFETY: by contract the pointers are NULL or good, and the buffer is until completion; the
        // constants are those of the module's table.
        unsafe {
            let (module, peer, remote) = (known(module)?, peer(endpoint)?, remote(remote_handle)?);
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
    if let Some(status) = tried {
        return status;
    }
    // SAFETY: as for this function.
    unsafe {
        any_put(
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

/// Any put.
#[inline(never)]
unsafe extern "C" fn any_put(
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
    kept((flags, order));
    guarded("put", || {
        // SAFETY: by contract.
        let (module, peer, remote) = need!(unsafe { known(module) }, peer(endpoint), unsafe {
            remote(remote_handle)
        });
        let completion = completion(callback, context, data);
        // SAFETY: by contract the endpoint is live and the buffer readable until completion.
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
    let tried = (|| {
        branch();
        if !local_handle.is_null() {
            return None;
        }
        // SAFETY: by contract the pointers are NULL or good, and the buffer is until completion; the
        // constants are those of the module's table.
        unsafe {
            let (module, peer, remote) = (known(module)?, peer(endpoint)?, remote(remote_handle)?);
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
    if let Some(status) = tried {
        return status;
    }
    // SAFETY: as for this function.
    unsafe {
        any_get(
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

/// Any get.
#[inline(never)]
unsafe extern "C" fn any_get(
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
    kept((flags, order));
    guarded("get", || {
        // SAFETY: by contract.
        let (module, peer, remote) = need!(unsafe { known(module) }, peer(endpoint), unsafe {
            remote(remote_handle)
        });
        let completion = completion(callback, context, data);
        // SAFETY: by contract the endpoint is live and the buffer writable until completion.
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
