//! Put with notification.

use std::ffi::c_void;

use plugin_api::{CompletionFn, Endpoint, Handle, Module, Status};
use transport::{Notice, Op};

use super::{completion, remote, target};
use crate::guard::called;

pub(super) unsafe extern "C" fn put_notify(
    module: *mut Module,
    endpoint: *mut Endpoint,
    local_address: *mut c_void,
    remote_address: u64,
    local_handle: *mut Handle,
    remote_handle: *const Handle,
    size: usize,
    counter_address: u64,
    counter_handle: *const Handle,
    add: u64,
    callback: Option<CompletionFn>,
    context: *mut c_void,
    data: *mut c_void,
) -> Status {
    // SAFETY: the host passes NULL or live objects of this module.
    let (target, counter) = unsafe {
        (
            target(module, endpoint, remote_handle),
            remote(counter_handle),
        )
    };
    called("put_notify", target, |(module, peer, remote)| {
        let put = Op::put(remote, remote_address, (local_address, local_handle), size)
            .with_completion(completion(callback, context, data));
        let notice = Notice {
            counter: counter?,
            address: counter_address,
            add,
        };
        // SAFETY: the host keeps the endpoint live and the buffer readable until completion.
        Some(unsafe { module.transport.put_notify(peer, &put, &notice) })
    })
}
