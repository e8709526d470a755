//! Put and get. The quick paths are defined by `quick_entry`.

use std::ffi::c_void;

use plugin_api::{CompletionFn, Endpoint, Handle, Module, Status, TransferFlags};

use transport::Op;
use transport::hints::{OTHER, branch, late_success, quick_entry};

use super::{completion, submit, target};
use crate::guard::use_argument;

/// Defines the functions of put, or of get, which differ in the direction alone.
macro_rules! transfer {
    ($name:ident, $direct:ident, $other:ident, $slow:ident, $no_callback:ident, $is_put:literal) => {
        quick_entry! {
            $name, $direct, $other, $slow, sends_transfers_by_fabric, $no_callback for no callback,
            (
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
            ),
            WAY, {
                branch();
                if !local_handle.is_null() {
                    return None;
                }
                // Targets check messages anyway, and no host sets flags in a table without messages.
                if WAY == OTHER {
                    branch();
                    if flags != 0 {
                        return None;
                    }
                }
                // SAFETY: the host passes NULL or live objects of this module, and a buffer that stays valid until completion;
                // `T` is that of the module's table.
                unsafe {
                    let (module, peer, remote) = target(module, endpoint, remote_handle)?;
                    module.transport.try_transfer::<T, WAY, $is_put>(
                        peer,
                        local_address,
                        remote_address,
                        remote,
                        size,
                        completion(callback, context, data),
                    ).map(late_success)
                }
            } else {
                use_argument(order);
                let make = |remote| {
                    let local = (local_address, local_handle);
                    let op = Op::$name(remote, remote_address, local, size);
                    Some(op.with_flags(TransferFlags::from_bits_retain(flags)))
                };
                let to = (module, endpoint, remote_handle);
                // SAFETY: the host passes NULL or live objects of this module, and keeps the endpoint live and the buffer valid until completion.
                unsafe { submit(stringify!($name), to, completion(callback, context, data), make) }
            } -> Status
        }
    };
}

transfer! { put, direct_put, other_put, slow_put, put_no_callback, true }
transfer! { get, direct_get, other_get, slow_get, get_no_callback, false }
