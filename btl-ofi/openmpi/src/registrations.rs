//! Registration through Open MPI's cache `grdma` where the provider registers pages, and directly elsewhere.
//!
//! The cache rounds to pages, gives overlapping requests one registration, and hears from Open MPI's memory hooks
//! when memory goes back to the system: a registration of memory that was freed is never served again.
//!
//! It also ends the process with `_exit` when memory is freed that is still registered, as in a program that frees a
//! window's memory before MPI_Win_free. A provider without FI_MR_ALLOCATED registers addresses and not pages: it keeps
//! nothing that outlives the memory, and its registrations are cheap. So over such a provider the cache is not used.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::{MaybeUninit, offset_of, size_of};
use std::ptr::{NonNull, null_mut};

use btl_ofi::{HANDLE_SIZE, Handle, Region, Transport};
use plugin_api::{Access, Status};

use crate::bindings as ffi;
use crate::guard::guarded;
use crate::log;

/// What osc/rdma copies into a fixed array of 256 bytes, in steps of 8.
const _: () = assert!(HANDLE_SIZE <= 256 && HANDLE_SIZE.is_multiple_of(8));

/// A registration as the cache keeps it, ours behind its own part. The cache allocates it and frees it; between
/// `reg_mem` and `dereg_mem` our part is initialised.
#[repr(C)]
struct Registration {
    cache: ffi::mca_rcache_base_registration_t,
    /// What osc/rdma holds a pointer to and copies to peers.
    handle: MaybeUninit<Handle>,
    region: MaybeUninit<Region>,
}

/// A registration made without the cache.
#[repr(C)]
struct Direct {
    handle: Handle,
    region: Region,
}

/// How a module registers.
#[derive(Clone, Copy)]
pub(crate) enum Registrations {
    /// Through Open MPI's cache.
    Cached(NonNull<ffi::mca_rcache_base_module_t>),
    /// One by one: the cache component is not there, or the provider does not register pages.
    Direct,
}

impl Registrations {
    /// The cache for `transport`, whose address must stay the same until [`close`](Self::close).
    ///
    /// Creating the first cache installs Open MPI's memory hooks, which patch the C library's functions. That must
    /// not happen while other threads run, so that this comes before libfabric may start any.
    pub(crate) fn open(transport: *mut MaybeUninit<Transport>) -> Registrations {
        let mut resources = ffi::mca_rcache_base_resources_t {
            // The cache copies the name; equal names would share a cache among modules.
            cache_name: c"mca_btl_ofi".as_ptr().cast_mut(),
            reg_data: transport.cast(),
            sizeof_reg: size_of::<Registration>(),
            register_mem: Some(reg_mem),
            deregister_mem: Some(dereg_mem),
        };
        let name: *const c_char = CStr::as_ptr(c"grdma");
        // SAFETY: a NUL-terminated name; the resources are read during the call, except `reg_data`, which the caller
        // keeps in place.
        let cache = unsafe {
            ffi::mca_rcache_base_module_create(name, transport.cast(), &raw mut resources)
        };
        match NonNull::new(cache) {
            Some(cache) => Registrations::Cached(cache),
            None => {
                log::verbose(1, || {
                    String::from(
                        "Open MPI has no registration cache; each registration is made anew",
                    )
                });
                Registrations::Direct
            }
        }
    }

    /// What suits a provider: the cache where registrations stand for pages, none elsewhere.
    pub(crate) fn suited(self, registers_pages: bool) -> Registrations {
        if registers_pages {
            return self;
        }
        log::verbose(1, || {
            String::from(
                "the provider registers addresses and not pages; each registration is made anew",
            )
        });
        self.close();
        Registrations::Direct
    }

    /// Registers memory; NULL when there is no room.
    ///
    /// # Safety
    /// The memory stays until its registration ends: osc/rdma deregisters memory before it gives it back.
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
                // SAFETY: a live cache, whose functions Open MPI filled in.
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
                // SAFETY: one of our registrations, initialised by `reg_mem`.
                unsafe { (&raw mut (*registration.cast::<Registration>()).handle).cast() }
            }
            // SAFETY: the caller keeps the memory until the registration ends.
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
    /// `handle` is from [`register`](Self::register), and not used after this.
    pub(crate) unsafe fn deregister(
        self,
        handle: *mut ffi::mca_btl_base_registration_handle_t,
    ) -> Status {
        match self {
            Registrations::Cached(cache) => {
                // SAFETY: the handle is the field of a registration that `register` returned.
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
                // SAFETY: `register` returned the address of the box, whose first field is the handle.
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

    /// Ends the cache and with it every registration that it kept for reuse.
    pub(crate) fn close(self) {
        if let Registrations::Cached(cache) = self {
            // SAFETY: created by `open`; the module that owns it is being finalised.
            unsafe { ffi::mca_rcache_base_module_destroy(cache.as_ptr()) };
        }
    }
}

/// Called by the cache. OUT_OF_RESOURCE makes it evict a registration that nobody uses, and try again.
unsafe extern "C" fn reg_mem(
    data: *mut c_void,
    base: *mut c_void,
    size: usize,
    registration: *mut ffi::mca_rcache_base_registration_t,
) -> c_int {
    guarded("reg_mem", Status::OUT_OF_RESOURCE.0, || {
        // SAFETY: `data` is what `open` was given, initialised before anything is registered.
        let transport = unsafe { &*data.cast::<Transport>() };
        // SAFETY: the cache passes one of the registrations that it allocated at the size we asked for.
        let access = unsafe { (*registration).access_flags };
        let access = Access::from_bits_truncate(access as u32);
        // SAFETY: the cache ends registrations when their memory goes back to the system; see its memory hooks.
        match unsafe { transport.register(base, size, access) } {
            Ok(region) => {
                let registration = registration.cast::<Registration>();
                // SAFETY: as above; our part holds nothing yet.
                unsafe {
                    (*registration).handle.write(region.handle());
                    (*registration).region.write(region);
                }
                Status::SUCCESS.0
            }
            Err(e) => {
                log::verbose(1, || format!("{e}"));
                // Whatever the reason, a retry after an eviction is all that can be done about it.
                Status::OUT_OF_RESOURCE.0
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
        // SAFETY: `reg_mem` initialised our part, and the cache gives each registration back once. A handle of
        // zeros is refused by every operation.
        let region = unsafe {
            (*registration).handle.as_mut_ptr().write_bytes(0, 1);
            (*registration).region.assume_init_read()
        };
        match region.close() {
            Ok(()) => Status::SUCCESS.0,
            Err(e) => {
                log::line(&format!("{e}"));
                // The region is gone all the same; an error here would make the cache keep it and try again.
                Status::SUCCESS.0
            }
        }
    })
}
