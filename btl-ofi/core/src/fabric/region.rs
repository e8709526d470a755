//! A registered region, and its deregistration.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::error::{Doing, Error};
use crate::fabric::registered::Registered;
use crate::fabric::registration::Registrar;
use crate::mem::handle::Handle;

/// A registered region. Dropping the region deregisters the memory.
pub struct Region {
    // Closed before the key is returned (see Drop).
    pub(super) mr: Option<Registered>,
    pub(super) handle: Handle,
    pub(super) key: Option<u64>,
    /// For device memory: the generation of the region.
    pub(super) device: Option<u32>,
    pub(super) registrar: Arc<Registrar>,
    /// The same memory on further rails.
    pub(super) rails: Vec<Region>,
    /// The file through which peers map the region. The file is closed last, because peers open it until the
    /// region is withdrawn.
    pub(super) _file: Option<File>,
}

impl Region {
    /// The handle by which peers access the region.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// Deregisters and reports the result.
    ///
    /// # Errors
    /// The provider refused to close the region; the region's key is then not reused. [`Error::Forked`] in a child of fork;
    /// nothing changes then.
    pub fn close(mut self) -> Result<(), Error> {
        self.registrar.birth.check()?;
        self.remove_device();
        let rails = std::mem::take(&mut self.rails)
            .into_iter()
            .map(Region::close);
        let on_rails = rails.fold(Ok(()), Result::and);
        let Some(mr) = self.mr.take() else {
            return on_rails;
        };
        mr.close()
            .doing(|| {
                format!(
                    "deregistering {} bytes at {:#x}",
                    self.handle.length(),
                    self.handle.base()
                )
            })
            .inspect_err(|_| self.key = None)
            .and(on_rails)
    }

    /// Removes device memory from the table, so that neither new operations nor peers find it.
    fn remove_device(&mut self) {
        if let Some(generation) = self.device.take() {
            self.registrar.devices.remove(generation);
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if !self.registrar.birth.is_here() {
            // The registration belongs to the parent. The tables belong to the parent, too, and a thread
            // of the parent may have locked them at the fork.
            std::mem::forget(self.mr.take());
            return;
        }
        self.remove_device();
        if let Some(shared) = &self.registrar.shared
            && self.handle.is_shared()
        {
            shared.withdraw(&self.handle);
        }
        // The key is returned only after the region is closed below.
        self.registrar.regions().remove(&self.handle);
        self.mr = None;
        self.registrar.keys.give_back(self.key);
        self.registrar.live.fetch_sub(1, Ordering::Relaxed);
    }
}
