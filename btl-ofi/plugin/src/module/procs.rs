//! Adds and releases peers.

use std::ptr::{self, NonNull};

use plugin_api::{Endpoint, Module, Status};

use super::{OfiModule, module_ref, peer};
use crate::guard::guarded;
use crate::modex;

pub(super) unsafe extern "C" fn add_procs(
    module: *mut Module,
    count: usize,
    procs: *const u64,
    endpoints: *mut *mut Endpoint,
) -> Status {
    guarded("add_procs", || {
        // SAFETY: the host passes NULL or a module from `init` that is not finalised.
        let Some(module) = (unsafe { module_ref(module) }) else {
            return Status::BAD_PARAM;
        };
        if count == 0 {
            return Status::SUCCESS;
        }
        if procs.is_null() || endpoints.is_null() {
            return Status::BAD_PARAM;
        }
        // SAFETY: both pointers are not NULL; the host passes arrays of `count` elements.
        let (procs, endpoints) = unsafe {
            (
                std::slice::from_raw_parts(procs, count),
                std::slice::from_raw_parts_mut(endpoints, count),
            )
        };
        let mut status = Status::SUCCESS;
        for (&proc, out) in procs.iter().zip(endpoints) {
            *out = ptr::null_mut();
            match connect(module, proc) {
                Ok(endpoint) => *out = endpoint.as_ptr().cast(),
                Err(why) => {
                    tracing::warn!("process {proc} cannot be reached: {}", why.1);
                    // A NULL endpoint reports an unreachable peer; the status reports other failures.
                    if why.0 != Status::UNREACH {
                        status = why.0;
                    }
                }
            }
        }
        status
    })
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
    guarded("del_procs", || {
        // SAFETY: the host passes NULL or a module from `init` that is not finalised.
        let Some(module) = (unsafe { module_ref(module) }) else {
            return Status::BAD_PARAM;
        };
        if count == 0 {
            return Status::SUCCESS;
        }
        if endpoints.is_null() {
            return Status::BAD_PARAM;
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
        status
    })
}
