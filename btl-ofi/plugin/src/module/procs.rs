//! Adds and releases peers.

use std::ptr::{self, NonNull};

use plugin_api::{Endpoint, Module, Status};

use super::{OfiModule, module_ref, peer};
use crate::guard::called;
use crate::modex;

pub(super) unsafe extern "C" fn add_procs(
    module: *mut Module,
    count: usize,
    procs: *const u64,
    endpoints: *mut *mut Endpoint,
) -> Status {
    // SAFETY: the host passes NULL or a module from `init` that is not finalised.
    called("add_procs", unsafe { module_ref(module) }, |module| {
        if count == 0 {
            return Some(Status::SUCCESS);
        }
        if procs.is_null() || endpoints.is_null() {
            return None;
        }
        // SAFETY: both pointers are not NULL; the host passes arrays of `count` elements.
        let (procs, endpoints) = unsafe {
            (
                std::slice::from_raw_parts(procs, count),
                std::slice::from_raw_parts_mut(endpoints, count),
            )
        };
        endpoints.fill(ptr::null_mut());
        for (&proc, out) in procs.iter().zip(&mut *endpoints) {
            match connect(module, proc) {
                Ok(endpoint) => *out = endpoint.as_ptr().cast(),
                Err((status, why)) => {
                    let text = format!("process {proc} cannot be reached: {why}");
                    match module.transport.is_by_memory_alone() {
                        // The host tries this one first, and has another.
                        true => tracing::info!("{text}"),
                        false => tracing::warn!("{text}"),
                    }
                    // A NULL endpoint reports an unreachable peer; the status reports other failures.
                    if status != Status::UNREACH {
                        release(module, endpoints);
                        return Some(status);
                    }
                }
            }
        }
        Some(Status::SUCCESS)
    })
}

/// Takes back what a call added that fails.
fn release(module: &OfiModule, endpoints: &mut [*mut Endpoint]) {
    for endpoint in endpoints {
        if let Some(added) = peer(std::mem::replace(endpoint, ptr::null_mut())) {
            // SAFETY: the call added the endpoint just now, and no other thread knows it.
            let released = unsafe { module.transport.disconnect(added) };
            if !released.is_ok() {
                tracing::warn!("a process was not released: {released}");
            }
        }
    }
}

fn connect(
    module: &OfiModule,
    proc: u64,
) -> Result<NonNull<transport::Endpoint>, (Status, String)> {
    let blob = modex::fetch(module.host, proc)?;
    module
        .transport
        .connect(&blob, proc)
        .map_err(|e| (e.status(), e.to_string()))
}

pub(super) unsafe extern "C" fn del_procs(
    module: *mut Module,
    count: usize,
    endpoints: *const *mut Endpoint,
) -> Status {
    // SAFETY: the host passes NULL or a module from `init` that is not finalised.
    called("del_procs", unsafe { module_ref(module) }, |module| {
        if count == 0 {
            return Some(Status::SUCCESS);
        }
        if endpoints.is_null() {
            return None;
        }
        // SAFETY: `endpoints` is not NULL; the host passes an array of `count` elements.
        let endpoints = unsafe { std::slice::from_raw_parts(endpoints, count) };
        let mut status = Status::SUCCESS;
        for endpoint in endpoints.iter().filter_map(|&e| peer(e)) {
            // SAFETY: the host passes endpoints from `add_procs` and releases each as often as it was added.
            let released = unsafe { module.transport.disconnect(endpoint) };
            if !released.is_ok() {
                status = released;
            }
        }
        Some(status)
    })
}
