//! Put, get and flush.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use btl_ofi::Endpoint;
use btl_ofi::hints::{NO_CALLBACK, branch, quick_entry};
use plugin_api::Status;

use super::call::{Btl, BtlCallback, BtlEndpoint, BtlHandle, Call, completion, operation, refused};
use super::kept;
use crate::btl::module::Module;
use crate::btl::transfers::{Kind, Transfer};
use crate::guard::{called, use_argument};

/// Defines the functions of put, or of get, which differ in the direction alone. osc/rdma gets nothing without a callback.
macro_rules! transfer {
    ($name:ident, $direct:ident, $other:ident, $slow:ident, $kind:ident, $is_put:literal $(, $no_callback:ident)?) => {
        quick_entry! {
            $name, $direct, $other, $slow, sends_transfers_by_fabric, $($no_callback for no callback,)?
            (
            btl: Btl,
            endpoint: BtlEndpoint,
            local: *mut c_void,
            remote: u64,
            local_handle: BtlHandle,
            remote_handle: BtlHandle,
            size: usize,
            flags: c_int,
            order: c_int,
            callback: BtlCallback,
            context: *mut c_void,
            data: *mut c_void,
            ),
            WAY, {
                branch();
                if !local_handle.is_null() {
                    return None;
                }
                // SAFETY: Open MPI passes NULL or live pointers from this module, a readable copy of the peer's handle, and buffers
                // that stay valid until completion; `T` is that of the module's table.
                let (call, status) = unsafe {
                    let call = Call::new(btl, endpoint, remote_handle)?;
                    let status = call.module.transport().try_transfer::<T, WAY, $is_put>(call.endpoint, local, remote, call.handle, size, completion(callback, context, data));
                    (call, status?)
                };
                Some(if status == Status::SUCCESS { 0 } else if WAY == NO_CALLBACK { refused(call.module, call.endpoint, stringify!($name), status) } else {
                    let transfer = Transfer { kind: Kind::$kind, local, local_handle, remote, handle: *call.handle, size, done: completion(callback, context, data) };
                    kept::settle(&call, status, &transfer)
                })
            } else {
                use_argument((flags, order));
                operation(stringify!($name), btl, || {
                    // SAFETY: Open MPI passes NULL or live pointers from this module, and a readable copy of the peer's handle.
                    let Some(call) = (unsafe { Call::new(btl, endpoint, remote_handle) }) else {
                        return Err(Status::BAD_PARAM);
                    };
                    let transfer = Transfer {
                        kind: Kind::$kind,
                        local,
                        local_handle,
                        remote,
                        handle: *call.handle,
                        size,
                        done: completion(callback, context, data),
                    };
                    // SAFETY: osc/rdma keeps `size` bytes at `local`, readable and unchanged for a put, writable and unused for a get, until completion.
                    let status = unsafe { call.submit(&transfer.op()) };
                    Ok(match status {
                        Status::SUCCESS => 0,
                        status => kept::settle(&call, status, &transfer),
                    })
                })
            } -> c_int
        }
    };
}

transfer! { put, direct_put, other_put, slow_put, Put, true, put_no_callback }
transfer! { get, direct_get, other_get, slow_get, Get, false }

/// Waits until every earlier operation of this thread to one peer, or to all peers with NULL, is complete.
pub(super) unsafe extern "C" fn flush(btl: Btl, endpoint: BtlEndpoint) -> c_int {
    // SAFETY: Open MPI passes NULL or the live module that `init` returned.
    called("flush", unsafe { Module::of(btl) }, |module| {
        // SAFETY: the endpoint is NULL or came from `add_procs`, and it is live until `del_procs`.
        let peer = unsafe { endpoint.cast::<Endpoint>().as_ref() };
        kept::post_all(module, NonNull::new(endpoint.cast()));
        let status = module.transport().flush(peer);
        // A flush of all peers tells that some were lost; each loss was reported.
        let known = peer.is_none() && status == Status::UNREACH;
        if !status.is_ok() && !status.is_again() && !known {
            // osc/rdma ignores the return value of flush.
            module.fail(
                endpoint.cast(),
                status,
                &format!("operations failed before a flush: {status}"),
            );
        }
        Some(status)
    })
}
