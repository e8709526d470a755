//! Registers and deregisters memory.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use plugin_api::Access;

use crate::bindings as ffi;
use crate::btl::module::Module;
use crate::guard::{called, guarded};

/// Registers memory; NULL when the provider has no room, which osc/rdma takes as OUT_OF_RESOURCE. `endpoint` is
/// ignored, because a registration serves all peers; it may be NULL or `MCA_BTL_ENDPOINT_ANY` (-1).
pub(super) unsafe extern "C" fn register_mem(
    btl: *mut ffi::mca_btl_base_module_t,
    _endpoint: *mut ffi::mca_btl_base_endpoint_t,
    base: *mut c_void,
    size: usize,
    flags: u32,
) -> *mut ffi::mca_btl_base_registration_handle_t {
    guarded("register_mem", null_mut(), || {
        // SAFETY: Open MPI passes NULL or the live module that `init` returned.
        let Some(module) = (unsafe { Module::of(btl) }) else {
            return null_mut();
        };
        let access = Access::from_bits_truncate(flags);
        let registrations = module.registrations();
        // SAFETY: osc/rdma deregisters memory before it frees it.
        unsafe { registrations.register(module.transport(), base, size, access) }
    })
}

/// Ends a registration; the cache may keep it for the next request.
pub(super) unsafe extern "C" fn deregister_mem(
    btl: *mut ffi::mca_btl_base_module_t,
    handle: *mut ffi::mca_btl_base_registration_handle_t,
) -> c_int {
    // SAFETY: Open MPI passes NULL or the live module that `init` returned.
    called("deregister_mem", unsafe { Module::of(btl) }, |module| {
        if handle.is_null() {
            return None;
        }
        // SAFETY: Open MPI passes each handle of `register_mem` once and does not use it again.
        Some(unsafe { module.registrations().deregister(handle) })
    })
}
