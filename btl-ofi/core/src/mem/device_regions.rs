//! Registered memory of devices, found again by the generation in its handle.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plugin_api::{Access, Status};

use super::copy::Copier;

/// What is known of one registration.
pub(crate) struct DeviceRegion {
    pub(crate) base: u64,
    pub(crate) length: u64,
    pub(crate) iface: u32,
    /// What peers may do.
    pub(crate) access: Access,
    /// The way to it that was in force when it was registered.
    pub(crate) copier: Copier,
    /// The provider's descriptor for local buffers there; `None` for a staged region.
    pub(crate) descriptor: Option<Descriptor>,
}

/// What the provider wants with a local buffer of registered memory (`fi_mr_desc`).
#[derive(Clone, Copy)]
pub(crate) struct Descriptor(pub(crate) *mut c_void);

// SAFETY: a token that is only handed back to the provider.
unsafe impl Send for Descriptor {}
// SAFETY: as for Send.
unsafe impl Sync for Descriptor {}

impl DeviceRegion {
    /// A region as its registration says.
    pub(crate) fn new(
        base: u64,
        length: u64,
        iface: u32,
        access: Access,
        copier: Copier,
        descriptor: Option<Descriptor>,
    ) -> DeviceRegion {
        DeviceRegion {
            base,
            length,
            iface,
            access,
            copier,
            descriptor,
        }
    }

    /// Whether `size` bytes at `address` lie inside.
    pub(crate) fn covers(&self, address: u64, size: u64) -> Result<(), Status> {
        let offset = address.wrapping_sub(self.base);
        if offset > self.length || size > self.length - offset {
            return Err(Status::VALUE_OUT_OF_BOUNDS);
        }
        Ok(())
    }
}

/// All device regions of a transport.
#[derive(Default)]
pub(crate) struct DeviceRegions {
    known: Mutex<HashMap<u32, Arc<DeviceRegion>>>,
    /// Held while the agent works on any.
    working: Mutex<()>,
}

impl DeviceRegions {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Arc<DeviceRegion>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to work on what [`find`](Self::find) finds, for peers: until it is dropped no
    /// [`remove`](Self::remove) returns.
    pub(crate) fn work(&self) -> MutexGuard<'_, ()> {
        self.working.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, generation: u32, region: DeviceRegion) {
        self.lock().insert(generation, Arc::new(region));
    }

    pub(crate) fn remove(&self, generation: u32) {
        self.lock().remove(&generation);
        // The memory may be freed after this: the agent may have found it just before.
        drop(self.work());
    }

    pub(crate) fn find(&self, generation: u32) -> Option<Arc<DeviceRegion>> {
        self.lock().get(&generation).cloned()
    }

    /// Regions that the provider reaches, and those that are staged.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let regions = self.lock();
        let direct = regions.values().filter(|r| r.descriptor.is_some()).count() as u64;
        (direct, regions.len() as u64 - direct)
    }
}
