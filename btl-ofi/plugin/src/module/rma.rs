//! Puts and gets.

use std::ffi::c_void;

use plugin_api::{CompletionFn, Endpoint, Handle, Module, Status};

use super::{completion, known, peer, remote};
use crate::guard::{guarded, need};

pub(super) unsafe extern "C" fn put(
    module: *mut Module,
    endpoint: *mut Endpoint,
    local_address: *mut c_void,
    remote_address: u64,
    local_handle: *mut Handle,
    remote_handle: *const Handle,
    size: usize,
    _flags: u32,
    _order: i32,
    callback: Option<CompletionFn>,
    context: *mut c_void,
    data: *mut c_void,
) -> Status {
    guarded("put", || {
        // SAFETY: by contract.
        let (module, peer, remote) = need!(unsafe { known(module) }, peer(endpoint), unsafe {
            remote(remote_handle)
        });
        if local_address.is_null() && size > 0 {
            return Status::BAD_PARAM;
        }
        let completion = completion(callback, context, data);
        // SAFETY: by contract the endpoint is live and the buffer readable until completion.
        unsafe {
            module.transport.put(
                peer,
                local_address,
                remote_address,
                local_handle,
                &remote,
                size,
                completion,
            )
        }
    })
}

pub(super) unsafe extern "C" fn get(
    module: *mut Module,
    endpoint: *mut Endpoint,
    local_address: *mut c_void,
    remote_address: u64,
    local_handle: *mut Handle,
    remote_handle: *const Handle,
    size: usize,
    _flags: u32,
    _order: i32,
    callback: Option<CompletionFn>,
    context: *mut c_void,
    data: *mut c_void,
) -> Status {
    guarded("get", || {
        // SAFETY: by contract.
        let (module, peer, remote) = need!(unsafe { known(module) }, peer(endpoint), unsafe {
            remote(remote_handle)
        });
        if local_address.is_null() && size > 0 {
            return Status::BAD_PARAM;
        }
        let completion = completion(callback, context, data);
        // SAFETY: by contract the endpoint is live and the buffer writable until completion.
        unsafe {
            module.transport.get(
                peer,
                local_address,
                remote_address,
                local_handle,
                &remote,
                size,
                completion,
            )
        }
    })
}
