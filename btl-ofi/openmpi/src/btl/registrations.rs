//! Memory registration: through Open MPI's cache `grdma` if the provider registers pages, directly otherwise.
//!
//! The cache rounds to pages and shares one registration among overlapping requests. Open MPI's memory hooks tell the
//! cache when memory returns to the system, so that the cache never returns a registration of freed memory.
//!
//! The cache also ends the process with `_exit` when the program frees memory that is still registered, for example a
//! window's memory before MPI_Win_free. A provider without FI_MR_ALLOCATED registers addresses, not pages: its
//! registrations hold no memory and are cheap. Over such a provider the component does not use the cache.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::{MaybeUninit, offset_of, size_of};
use std::ptr::{NonNull, null_mut};

use btl_ofi::{Handle, Region, Transport};
use plugin_api::{Access, Status};

use crate::bindings as ffi;
use crate::guard::guarded;
use crate::log;

/// osc/rdma copies a handle into a fixed array of 256 bytes, 8 bytes at a time.
const _: () = assert!(Handle::SIZE <= 256 && Handle::SIZE.is_multiple_of(8));

/// The cache's registration followed by this component's fields. The cache allocates and frees this structure. The
/// component's fields are initialised between `reg_mem` and `dereg_mem`.
#[repr(C)]
struct Registration {
    cache: ffi::mca_rcache_base_registration_t,
    /// osc/rdma holds a pointer to this field and copies it to peers.
    handle: MaybeUninit<Handle>,
    region: MaybeUninit<Region>,
}

/// A registration made without the cache.
#[repr(C)]
struct Direct {
    handle: Handle,
    region: Region,
}

/// A module's way to register memory.
#[derive(Clone, Copy)]
pub(crate) enum Registrations {
    /// Through Open MPI's cache.
    Cached(NonNull<ffi::mca_rcache_base_module_t>),
    /// One registration per request: there is no cache component, or the provider does not register pages.
    Direct,
}

impl Registrations {
    /// Creates the cache for `transport`, whose address must not change until [`close`](Self::close).
    ///
    /// The first cache of a process installs Open MPI's memory hooks, which patch functions of the C library. No other
    /// thread may run meanwhile, so call this before libfabric can start threads.
    pub(crate) fn open(transport: *mut MaybeUninit<Transport>) -> Registrations {
        let mut resources = ffi::mca_rcache_base_resources_t {
            // The cache copies the name. Modules with the same name share a cache.
            cache_name: c"mca_btl_ofi_rs".as_ptr().cast_mut(),
            reg_data: transport.cast(),
            sizeof_reg: size_of::<Registration>(),
            register_mem: Some(reg_mem),
            deregister_mem: Some(dereg_mem),
        };
        let name: *const c_char = CStr::as_ptr(c"grdma");
        // SAFETY: the name is NUL-terminated. The function reads the resources during the call; `reg_data` is kept, and
        // the caller keeps it in place.
        let cache = unsafe {
            ffi::mca_rcache_base_module_create(name, transport.cast(), &raw mut resources)
        };
        match NonNull::new(cache) {
            Some(cache) => Registrations::Cached(cache),
            None => {
                log::verbose(1, || {
                    String::from(
                        "Open MPI has no registration cache; every request makes a new registration",
                    )
                });
                Registrations::Direct
            }
        }
    }

    /// Keeps the cache if the provider registers pages; otherwise closes it and registers directly.
    pub(crate) fn for_provider(self, registers_pages: bool) -> Registrations {
        if registers_pages {
            return self;
        }
        log::verbose(1, || {
            String::from(
                "the provider registers addresses and not pages; every request makes a new registration",
            )
        });
        self.close();
        Registrations::Direct
    }

    /// Registers memory; NULL when the provider has no room.
    ///
    /// # Safety
    /// The memory stays mapped until its registration ends: osc/rdma deregisters memory before it frees it.
    pub(crate) unsafe fn register(
        self,
        transport: &Transport,
        base: *mut c_void,
        size: usize,
        access: Access,
    ) -> *mut ffi::mca_btl_base_registration_handle_t {
        match self {
            Registrations::Cached(cache) => {
                let (flags, access) = (0, access.bits() as i32);
                let mut registration = null_mut();
                // SAFETY: the cache is live until `close`, and Open MPI filled in its functions.
                let rc = unsafe {
                    match (*cache.as_ptr()).rcache_register {
                        Some(register) => {
                            let out = &raw mut registration;
                            register(cache.as_ptr(), base, size, flags, access, out)
                        }
                        None => Status::NOT_SUPPORTED.0,
                    }
                };
                if rc != Status::SUCCESS.0 || registration.is_null() {
                    return null_mut();
                }
                // SAFETY: the cache returned a `Registration`, which `reg_mem` initialised.
                unsafe { (&raw mut (*registration.cast::<Registration>()).handle).cast() }
            }
            // SAFETY: the caller guarantees that the memory stays mapped until the registration ends.
            Registrations::Direct => match unsafe { transport.register(base, size, access) } {
                Ok(region) => Box::into_raw(Box::new(Direct {
                    handle: region.handle(),
                    region,
                }))
                .cast(),
                Err(e) => {
                    log::verbose(1, || format!("{e}"));
                    null_mut()
                }
            },
        }
    }

    /// Ends a registration; the cache may keep it for the next request.
    ///
    /// # Safety
    /// `handle` is from [`register`](Self::register) and is not used after this call.
    pub(crate) unsafe fn deregister(
        self,
        handle: *mut ffi::mca_btl_base_registration_handle_t,
    ) -> Status {
        match self {
            Registrations::Cached(cache) => {
                // SAFETY: the caller guarantees a handle from `register`, which is a field of a live `Registration`.
                let rc = unsafe {
                    let registration = handle.byte_sub(offset_of!(Registration, handle)).cast();
                    match (*cache.as_ptr()).rcache_deregister {
                        Some(deregister) => deregister(cache.as_ptr(), registration),
                        None => Status::NOT_SUPPORTED.0,
                    }
                };
                Status(rc)
            }
            Registrations::Direct => {
                // SAFETY: the caller guarantees a handle from `register`, used once. The handle is the first field of
                // a boxed `Direct`, so that both have the same address.
                let direct = unsafe { Box::from_raw(handle.cast::<Direct>()) };
                match direct.region.close() {
                    Ok(()) => Status::SUCCESS,
                    Err(e) => {
                        log::line(&format!("{e}"));
                        e.status()
                    }
                }
            }
        }
    }

    /// Ends the cache and every registration that it kept for reuse.
    pub(crate) fn close(self) {
        if let Registrations::Cached(cache) = self {
            // SAFETY: `open` created the cache, and its module, the only user, is being finalised.
            unsafe { ffi::mca_rcache_base_module_destroy(cache.as_ptr()) };
        }
    }
}

/// Called by the cache to register memory. On OUT_OF_RESOURCE the cache evicts an unused registration and tries again.
unsafe extern "C" fn reg_mem(
    data: *mut c_void,
    base: *mut c_void,
    size: usize,
    registration: *mut ffi::mca_rcache_base_registration_t,
) -> c_int {
    guarded("reg_mem", Status::OUT_OF_RESOURCE.0, || {
        // SAFETY: `data` is the transport passed to `open`; it is initialised before the first registration.
        let transport = unsafe { &*data.cast::<Transport>() };
        // SAFETY: the cache passes a live registration, allocated with the size of `Registration`.
        let access = unsafe { (*registration).access_flags };
        let access = Access::from_bits_truncate(access as u32);
        // SAFETY: the cache ends a registration when its memory returns to the system (memory hooks).
        match unsafe { transport.register(base, size, access) } {
            Ok(region) => {
                let registration = registration.cast::<Registration>();
                // SAFETY: the registration is live and has the size of `Registration`; the two fields are not
                // initialised yet, so that no old value is lost.
                unsafe {
                    (*registration).handle.write(region.handle());
                    (*registration).region.write(region);
                }
                Status::SUCCESS.0
            }
            Err(e) => {
                log::verbose(1, || format!("{e}"));
                match e {
                    // Memory that peers cannot use, which no eviction changes.
                    btl_ofi::Error::Invalid { .. } => e.status().0,
                    // A retry after an eviction is the only remedy, for any reason.
                    _ => Status::OUT_OF_RESOURCE.0,
                }
            }
        }
    })
}

/// Called by the cache when a registration is unused and evicted, invalid, or not cacheable.
unsafe extern "C" fn dereg_mem(
    _data: *mut c_void,
    registration: *mut ffi::mca_rcache_base_registration_t,
) -> c_int {
    guarded("dereg_mem", Status::ERROR.0, || {
        let registration = registration.cast::<Registration>();
        // Every operation refuses a handle of zeros.
        // SAFETY: `reg_mem` initialised both fields, and the cache deregisters each registration once.
        let region = unsafe {
            (*registration).handle.as_mut_ptr().write_bytes(0, 1);
            (*registration).region.assume_init_read()
        };
        match region.close() {
            Ok(()) => Status::SUCCESS.0,
            Err(e) => {
                log::line(&format!("{e}"));
                // The region is gone even so; after an error the cache would keep the registration and try again.
                Status::SUCCESS.0
            }
        }
    })
}
