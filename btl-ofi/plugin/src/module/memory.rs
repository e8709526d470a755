//! Registers and deregisters memory of the host.

use std::ffi::c_void;
use std::os::fd::BorrowedFd;

use plugin_api::{Access, Endpoint, Handle, Module, SOLE_ATOMICS, Status};

use super::{OfiModule, module_ref};
use crate::guard::called;

pub(super) unsafe extern "C" fn register_mem(
    module: *mut Module,
    _endpoint: *mut Endpoint,
    base: *mut c_void,
    size: usize,
    access: u32,
    handle: *mut *mut Handle,
) -> Status {
    // SAFETY: the host passes NULL or a module from `init` that is not finalised.
    called("register_mem", unsafe { module_ref(module) }, |module| {
        if handle.is_null() || (base.is_null() && size > 0) {
            return None;
        }
        let is_sole = access & SOLE_ATOMICS != 0;
        let access = Access::from_bits(access & !SOLE_ATOMICS)?;
        // SAFETY: the host keeps the memory mapped until `deregister_mem`.
        let registered = unsafe {
            match is_sole {
                true => module.transport.register_sole(base, size, access),
                false => module.transport.register(base, size, access),
            }
        };
        // SAFETY: `handle` is not NULL; the host passes a writable pointer.
        Some(unsafe { store_region(module, registered, handle) })
    })
}

pub(super) unsafe extern "C" fn register_shared(
    module: *mut Module,
    _endpoint: *mut Endpoint,
    base: *mut c_void,
    size: usize,
    access: u32,
    fd: i32,
    offset: u64,
    handle: *mut *mut Handle,
) -> Status {
    // SAFETY: the host passes NULL or a module from `init` that is not finalised.
    called("register_shared", unsafe { module_ref(module) }, |module| {
        if handle.is_null() || base.is_null() || fd < 0 {
            return None;
        }
        let access = Access::from_bits(access)?;
        // SAFETY: the host passes a descriptor that stays open through the call; it is not negative.
        let file = unsafe { BorrowedFd::borrow_raw(fd) };
        let memory = transport::SharedMemory { file, offset };
        // SAFETY: the host keeps the memory mapped until `deregister_mem`, and it is a mapping of the file.
        let registered = unsafe { module.transport.register_shared(base, size, access, memory) };
        // SAFETY: `handle` is not NULL; the host passes a writable pointer.
        Some(unsafe { store_region(module, registered, handle) })
    })
}

/// Stores a region and writes the pointer to its handle.
///
/// # Safety
/// `handle` is writable.
pub(super) unsafe fn store_region(
    module: &OfiModule,
    registered: Result<transport::Region, transport::Error>,
    handle: *mut *mut Handle,
) -> Status {
    let region = match registered {
        Ok(region) => region,
        Err(e) => {
            match e {
                // A mistake of the host's user. Other refusals the host may be able to do without.
                transport::Error::Invalid { .. } => tracing::warn!("{e}"),
                _ => tracing::info!("{e}"),
            }
            return e.status();
        }
    };
    match module.handles.insert(region) {
        Some(pointer) => {
            // SAFETY: the caller guarantees that `handle` is writable.
            unsafe { *handle = pointer.cast() };
            Status::SUCCESS
        }
        None => Status::OUT_OF_RESOURCE,
    }
}

pub(super) unsafe extern "C" fn deregister_mem(module: *mut Module, handle: *mut Handle) -> Status {
    // SAFETY: the host passes NULL or a module from `init` that is not finalised.
    called("deregister_mem", unsafe { module_ref(module) }, |module| {
        let region = module.handles.remove(handle.cast())?;
        Some(match region.close() {
            Ok(()) => Status::SUCCESS,
            Err(e) => {
                tracing::warn!("{e}");
                e.status()
            }
        })
    })
}
