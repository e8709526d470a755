//! A module's error callback, counts and end.

use std::ffi::c_int;
use std::ptr::NonNull;

use plugin_api::Status;

use crate::bindings as ffi;
use crate::btl::live;
use crate::btl::module::Module;
use crate::guard::{called, guarded};
use crate::log::{self, counts};

/// Sets the error callback.
pub(super) unsafe extern "C" fn register_error(
    btl: *mut ffi::mca_btl_base_module_t,
    callback: ffi::mca_btl_base_module_error_cb_fn_t,
) -> c_int {
    // SAFETY: Open MPI passes NULL or the live module that `init` returned.
    called("register_error", unsafe { Module::of(btl) }, |module| {
        module.on_error(callback);
        Some(Status::SUCCESS)
    })
}

/// Logs the process of an endpoint, or the module's counts.
pub(super) unsafe extern "C" fn dump(
    btl: *mut ffi::mca_btl_base_module_t,
    endpoint: *mut ffi::mca_btl_base_endpoint_t,
    _verbose: c_int,
) {
    guarded("dump", (), || {
        // SAFETY: Open MPI passes NULL or the live module that `init` returned.
        let Some(module) = (unsafe { Module::of(btl) }) else {
            return;
        };
        log::line(&counts(module.transport()));
        if !endpoint.is_null() {
            let proc = module.peers().proc_of(endpoint.cast());
            if !proc.is_null() {
                // SAFETY: `proc` is in the peer table, so that Open MPI added it and has not removed it.
                let name = unsafe { (*proc).proc_name };
                log::line(&format!(
                    "endpoint {endpoint:p} is process {}.{}",
                    name.jobid, name.vpid
                ));
            }
        }
    });
}

/// Ends the module. Unlike the C component, which sleeps for a second here, it waits only for outstanding operations, and
/// for seconds at most.
pub(super) unsafe extern "C" fn finalize(btl: *mut ffi::mca_btl_base_module_t) -> c_int {
    called("finalize", NonNull::new(btl.cast::<Module>()), |module| {
        live::forget(module);
        Module::end(module);
        Some(Status::SUCCESS)
    })
}
