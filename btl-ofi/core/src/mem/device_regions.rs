//! Registered device memory of this process, found by the generation in its handle. The regions that the provider does
//! not reach, the staged ones, are those on which the responder executes commands of peers.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plugin_api::{Access, Status};

use super::copy::Copier;
use super::handle::Handle;

/// One registration of device memory.
pub(crate) struct DeviceRegion {
    /// The handle that peers use.
    pub(crate) handle: Handle,
    pub(crate) base: u64,
    pub(crate) length: u64,
    pub(crate) iface: u32,
    /// The rights of peers.
    pub(crate) access: Access,
    /// The provider's descriptor for local buffers in the region; `None` for a staged region.
    pub(crate) descriptor: Option<Descriptor>,
}

/// The descriptor that the provider requires with a local buffer of registered memory
/// (`fi_mr_desc`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor(pub(crate) *mut c_void);

// SAFETY: the pointer is a token, and is only passed back to the provider, on any thread.
unsafe impl Send for Descriptor {}
// SAFETY: a shared `Descriptor` only copies the token, which this process never dereferences.
unsafe impl Sync for Descriptor {}

impl DeviceRegion {
    /// A region of `length` bytes at `base`.
    pub(crate) fn new(
        handle: Handle,
        (base, length): (u64, u64),
        (iface, access): (u32, Access),
        descriptor: Option<Descriptor>,
    ) -> DeviceRegion {
        DeviceRegion {
            handle,
            base,
            length,
            iface,
            access,
            descriptor,
        }
    }

    /// Checks that `size` bytes at `address` lie inside the region.
    pub(crate) fn covers(&self, address: u64, size: u64) -> Result<(), Status> {
        let offset = address.wrapping_sub(self.base);
        if offset > self.length || size > self.length - offset {
            return Err(Status::VALUE_OUT_OF_BOUNDS);
        }
        Ok(())
    }
}

/// All device regions of a transport, and the functions that copy them.
#[derive(Default)]
pub(crate) struct DeviceRegions {
    known: Mutex<HashMap<u32, Arc<DeviceRegion>>>,
    /// One copier for all regions, so that a change applies to every region.
    copier: Mutex<Copier>,
    /// Held while a command of a peer accesses any region.
    working: Mutex<()>,
}

impl DeviceRegions {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Arc<DeviceRegion>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The copy functions for operations that begin now.
    pub(crate) fn copier(&self) -> Copier {
        *self.copier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the copy functions. Operations in progress keep a copy of the functions with which they
    /// began.
    pub(crate) fn set_copier(&self, copier: Copier) {
        *self.copier.lock().unwrap_or_else(PoisonError::into_inner) = copier;
    }

    /// Locks the regions that [`find`](Self::find) returns, for accesses on behalf of peers. A call of
    /// [`remove`](Self::remove) waits until the guard is dropped.
    pub(crate) fn work(&self) -> MutexGuard<'_, ()> {
        self.working.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, region: DeviceRegion) {
        let generation = region.handle.generation();
        self.lock().insert(generation, Arc::new(region));
    }

    pub(crate) fn remove(&self, generation: u32) {
        self.lock().remove(&generation);
        // The host may free the memory after this call. The responder may have found the region just before, so this
        // call waits for the responder.
        drop(self.work());
    }

    pub(crate) fn find(&self, generation: u32) -> Option<Arc<DeviceRegion>> {
        self.lock().get(&generation).cloned()
    }

    /// The staged region whose handle has this key and this cookie field.
    pub(crate) fn find_staged(&self, key: u64, cookie: u64) -> Option<Arc<DeviceRegion>> {
        self.find_named(key, cookie)
            .filter(|region| region.handle.is_staged())
    }

    /// The region of device memory whose handle has this key and this cookie field.
    pub(crate) fn find_named(&self, key: u64, cookie: u64) -> Option<Arc<DeviceRegion>> {
        // The generation is the lower half of the cookie field.
        let region = self.find(cookie as u32)?;
        let handle = region.handle;
        let named = handle.is_device() && handle.key() == key && handle.cookie() == cookie;
        named.then_some(region)
    }

    /// Whether `is` returns true for the kind of each region that the provider reaches.
    pub(crate) fn all_direct(&self, is: impl Fn(u32) -> bool) -> bool {
        let regions = self.lock();
        let mut direct = regions.values().filter(|r| r.descriptor.is_some());
        direct.all(|region| is(region.iface))
    }

    /// The number of regions that the provider reaches, and of staged regions.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let regions = self.lock();
        let direct = regions.values().filter(|r| r.descriptor.is_some()).count() as u64;
        (direct, regions.len() as u64 - direct)
    }
}
