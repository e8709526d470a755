//! Received messages.

use std::ffi::c_void;
use std::ptr::{NonNull, null};
use std::slice;

use btl_ofi::Endpoint;
use plugin_api::Status;

use super::procs;
use crate::bindings as ffi;
use crate::btl::module::Module;
use crate::btl::peers::Name;
use crate::btl::sender;
use crate::guard::guarded;
use crate::log;

/// Hands a message of a peer to the function that Open MPI has registered for its tag.
pub(super) unsafe extern "C" fn receive(
    _module: *mut plugin_api::Module,
    endpoint: *mut plugin_api::Endpoint,
    tag: u8,
    data: *const c_void,
    size: usize,
    context: *mut c_void,
) {
    guarded("receive", (), || {
        // SAFETY: `context` is the module that registered this function; it outlives its transport.
        let Some(module) = (unsafe { context.cast::<Module>().as_ref() }) else {
            return;
        };
        let (mut endpoint, mut size) = (endpoint.cast::<Endpoint>(), size);
        if sender::is_named(tag) {
            // SAFETY: the transport passes `size` bytes, which are valid during the call.
            let bytes = unsafe { slice::from_raw_parts(data.cast::<u8>(), size) };
            let Some((message, name)) = sender::split(bytes) else {
                log::line(&format!(
                    "a message of {size} bytes names no sender; it is dropped"
                ));
                return;
            };
            size = message.len();
            if endpoint.is_null() {
                match endpoint_of(module, name) {
                    Some(found) => endpoint = found.as_ptr(),
                    None => return unanswered(module, name),
                }
            }
        }
        // SAFETY: the module is live, and the bytes are valid during the call.
        let known = unsafe {
            ffi::mca_btl_ofi_host_receive(module.btl(), endpoint.cast(), tag, data, size)
        };
        if !known {
            log::line(&format!(
                "a message of {size} bytes has tag {tag}, for which there is no function; it is dropped"
            ));
        }
    });
}

/// The endpoint of a process that sends although this one may not have added it.
#[cold]
fn endpoint_of(module: &Module, name: Name) -> Option<NonNull<Endpoint>> {
    if let Some(known) = module.peers().0.get(&name) {
        return Some(known.endpoint);
    }
    // SAFETY: the function takes numbers. The function may lock Open MPI's list of processes, and nothing here
    // holds a lock.
    let proc = unsafe { ffi::mca_btl_ofi_host_keep_process(name.0, name.1) };
    // SAFETY: the process is NULL or is kept until Open MPI ends.
    unsafe { procs::peer(module, proc) }
}

/// A request that cannot be answered: its origin would wait for ever.
#[cold]
fn unanswered(module: &Module, name: Name) {
    let why = format!(
        "process {}.{} sent a request, but cannot be reached to answer it",
        name.0, name.1
    );
    module.fail(null(), Status::UNREACH, &why);
}
