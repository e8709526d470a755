//! Adds and removes peers.

use std::collections::hash_map::Entry;
use std::ffi::c_int;
use std::ptr::{NonNull, null_mut};
use std::slice;

use btl_ofi::Endpoint;
use plugin_api::Status;

use super::kept;
use crate::bindings as ffi;
use crate::btl::module::Module;
use crate::btl::peers::{Name, Peer, Published};
use crate::guard::called;
use crate::log;

/// Makes endpoints. osc/rdma and bml/r2 rely on these rules:
/// - A process may be added again and gets its existing endpoint.
/// - A process may be added late, one at a time, with `reachable` NULL (4.1.4).
/// - The calling process is a peer like any other.
/// - A process that published no address gets no endpoint. The missing address is no error, because another
///   transport may reach the process.
pub(super) unsafe extern "C" fn add_procs(
    btl: *mut ffi::mca_btl_base_module_t,
    count: usize,
    procs: *mut *mut ffi::opal_proc_t,
    endpoints: *mut *mut ffi::mca_btl_base_endpoint_t,
    reachable: *mut ffi::opal_bitmap_t,
) -> c_int {
    // SAFETY: Open MPI passes NULL or the live module that `init` returned.
    called("add_procs", unsafe { Module::of(btl) }, |module| {
        if count == 0 {
            return Some(Status::SUCCESS);
        }
        if procs.is_null() || endpoints.is_null() {
            return None;
        }
        // SAFETY: Open MPI passes arrays of `count` elements.
        let (procs, endpoints) = unsafe {
            (
                slice::from_raw_parts(procs, count),
                slice::from_raw_parts_mut(endpoints, count),
            )
        };
        for (i, (&proc, endpoint)) in procs.iter().zip(endpoints).enumerate() {
            // SAFETY: each element is NULL or a live process of Open MPI.
            let Some(peer) = (unsafe { peer(module, proc) }) else {
                *endpoint = null_mut();
                continue;
            };
            *endpoint = peer.as_ptr().cast();
            if !reachable.is_null() {
                // SAFETY: Open MPI passes a bitmap of at least `count` bits.
                unsafe { ffi::opal_bitmap_set_bit(reachable, i as c_int) };
            }
        }
        Some(Status::SUCCESS)
    })
}

/// The endpoint of a process; creates it on the first call.
///
/// # Safety
/// `proc` is NULL or a live process of Open MPI.
pub(super) unsafe fn peer(
    module: &Module,
    proc: *mut ffi::opal_proc_t,
) -> Option<NonNull<Endpoint>> {
    if proc.is_null() {
        return None;
    }
    // SAFETY: the caller guarantees a live process, and `proc` is not NULL.
    let name = unsafe { Name::of(proc) };
    if let Some(known) = module.peers().0.get_mut(&name) {
        known.proc = proc;
        return Some(known.endpoint);
    }
    // The modex may wait for the other process, so the lock is not held here.
    // SAFETY: the caller guarantees a live process, and `proc` is not NULL.
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
    let unreached = |why: &dyn std::fmt::Display| {
        log::line(&format!(
            "process {}.{} cannot be reached: {why}",
            name.0, name.1
        ));
        None
    };
    match module.transport().connect(published.bytes(), name.number()) {
        Ok(endpoint) => {
            let known = match module.peers().0.entry(name) {
                Entry::Vacant(place) => {
                    place.insert(Peer::new(endpoint, proc));
                    false
                }
                Entry::Occupied(mut known) => {
                    known.get_mut().proc = proc;
                    true
                }
            };
            if known {
                // Two threads have added the process at the same time. Both threads get the same
                // endpoint. SAFETY: `connect` counted the endpoint twice; this releases one count.
                unsafe { module.transport().disconnect(endpoint) };
            }
            Some(endpoint)
        }
        Err(e) => unreached(&e),
    }
}

/// Releases endpoints; the transport first waits for their outstanding operations.
pub(super) unsafe extern "C" fn del_procs(
    btl: *mut ffi::mca_btl_base_module_t,
    count: usize,
    procs: *mut *mut ffi::opal_proc_t,
    _endpoints: *mut *mut ffi::mca_btl_base_endpoint_t,
) -> c_int {
    // SAFETY: Open MPI passes NULL or the live module that `init` returned.
    called("del_procs", unsafe { Module::of(btl) }, |module| {
        if count == 0 {
            return Some(Status::SUCCESS);
        }
        if procs.is_null() {
            return None;
        }
        // SAFETY: `procs` is an array of `count` elements, each NULL or a live process.
        for &proc in unsafe { slice::from_raw_parts(procs, count) } {
            if proc.is_null() {
                continue;
            }
            // SAFETY: `proc` is not NULL, so it is a live process of Open MPI.
            let name = unsafe { Name::of(proc) };
            let known = module.peers().0.remove(&name);
            if let Some(peer) = known {
                let fragments = module.fragments();
                fragments.send_before_release(module.door(), peer.endpoint);
                // Callbacks that run in `disconnect` may send. Kept messages would be sent after the release.
                fragments.begin_release(module.door(), peer.endpoint);
                kept::begin_release(module, peer.endpoint);
                // SAFETY: `add_procs` connected the endpoint, and it has just left the table, so it is released once.
                let status = unsafe { module.transport().disconnect(peer.endpoint) };
                fragments.end_release(peer.endpoint);
                module.transfers().open(peer.endpoint);
                if !status.is_ok() {
                    log::verbose(1, || {
                        format!("releasing process {}.{}: {status}", name.0, name.1)
                    });
                }
            }
        }
        Some(Status::SUCCESS)
    })
}
