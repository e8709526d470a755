//! Peers come and go.

use std::ffi::c_int;
use std::ptr::{NonNull, null_mut};
use std::slice;

use btl_ofi::Endpoint;
use plugin_api::Status;

use crate::bindings as ffi;
use crate::guard::guarded;
use crate::log;
use crate::module::Module;
use crate::peers::{Name, Peer, Published};

/// Makes endpoints. Honours what osc/rdma and bml/r2 do here: a process may be added again and gets the endpoint it
/// has; it may be added late, one at a time, then with `reachable` NULL (4.1.4); the own process is a peer like any
/// other. A process that published no address of ours is left out, not an error: another transport may reach it.
pub(super) unsafe extern "C" fn add_procs(
    btl: *mut ffi::mca_btl_base_module_t,
    count: usize,
    procs: *mut *mut ffi::opal_proc_t,
    endpoints: *mut *mut ffi::mca_btl_base_endpoint_t,
    reachable: *mut ffi::opal_bitmap_t,
) -> c_int {
    guarded("add_procs", Status::ERROR.0, || {
        // SAFETY: Open MPI passes the module that `init` gave it.
        let Some(module) = (unsafe { Module::of(btl) }) else {
            return Status::BAD_PARAM.0;
        };
        if count == 0 {
            return Status::SUCCESS.0;
        }
        if procs.is_null() || endpoints.is_null() {
            return Status::BAD_PARAM.0;
        }
        // SAFETY: Open MPI passes arrays of `count` entries.
        let (procs, endpoints) = unsafe {
            (
                slice::from_raw_parts(procs, count),
                slice::from_raw_parts_mut(endpoints, count),
            )
        };
        for (i, (&proc, endpoint)) in procs.iter().zip(endpoints).enumerate() {
            // SAFETY: the entries are processes of Open MPI.
            let Some(peer) = (unsafe { peer(module, proc) }) else {
                *endpoint = null_mut();
                continue;
            };
            *endpoint = peer.as_ptr().cast();
            if !reachable.is_null() {
                // SAFETY: a bitmap of at least `count` bits.
                unsafe { ffi::opal_bitmap_set_bit(reachable, i as c_int) };
            }
        }
        Status::SUCCESS.0
    })
}

/// The endpoint of a process, made if there is none yet.
///
/// # Safety
/// `proc` is NULL or a process of Open MPI.
unsafe fn peer(module: &Module, proc: *mut ffi::opal_proc_t) -> Option<NonNull<Endpoint>> {
    if proc.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let name = unsafe { Name::of(proc) };
    if let Some(known) = module.peers().0.get_mut(&name) {
        known.proc = proc;
        return Some(known.endpoint);
    }
    // The modex may wait for the other process, so that the lock is not held meanwhile.
    // SAFETY: the caller's promise.
    let published = match unsafe { Published::by(module.component(), proc) } {
        Ok(published) => published,
        Err(status) => {
            log::verbose(1, || {
                format!(
                    "process {}.{} published no address: {status}",
                    name.0, name.1
                )
            });
            return None;
        }
    };
    match module.transport().connect(published.bytes(), name.number()) {
        Ok(endpoint) => {
            // Two threads may add one process at once: both got the same endpoint, counted twice.
            if module
                .peers()
                .0
                .insert(name, Peer { endpoint, proc })
                .is_some()
            {
                // SAFETY: connected twice, released once.
                unsafe { module.transport().disconnect(endpoint) };
            }
            Some(endpoint)
        }
        Err(e) => {
            log::line(&format!(
                "process {}.{} cannot be reached: {e}",
                name.0, name.1
            ));
            None
        }
    }
}

/// Releases endpoints, after their outstanding operations ended.
pub(super) unsafe extern "C" fn del_procs(
    btl: *mut ffi::mca_btl_base_module_t,
    count: usize,
    procs: *mut *mut ffi::opal_proc_t,
    _endpoints: *mut *mut ffi::mca_btl_base_endpoint_t,
) -> c_int {
    guarded("del_procs", Status::ERROR.0, || {
        // SAFETY: Open MPI passes the module that `init` gave it.
        let Some(module) = (unsafe { Module::of(btl) }) else {
            return Status::BAD_PARAM.0;
        };
        if count == 0 {
            return Status::SUCCESS.0;
        }
        if procs.is_null() {
            return Status::BAD_PARAM.0;
        }
        // SAFETY: an array of `count` processes of Open MPI.
        for &proc in unsafe { slice::from_raw_parts(procs, count) } {
            if proc.is_null() {
                continue;
            }
            // SAFETY: as above.
            let name = unsafe { Name::of(proc) };
            let known = module.peers().0.remove(&name);
            if let Some(peer) = known {
                // SAFETY: connected when it was added, and out of the table now.
                let status = unsafe { module.transport().disconnect(peer.endpoint) };
                if !status.is_ok() {
                    log::verbose(1, || {
                        format!("releasing process {}.{}: {status}", name.0, name.1)
                    });
                }
            }
        }
        Status::SUCCESS.0
    })
}
