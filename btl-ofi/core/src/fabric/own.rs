//! The transport's own memory that the provider reads and writes: registered where it requires that (`FI_MR_LOCAL`).

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plugin_api::Access;

use crate::base::error::Error;
use crate::fabric::region::Region;
use crate::fabric::registration::Registrar;

/// Words that the provider may read and write until its endpoints are closed.
pub(crate) struct OwnMemory {
    /// Closed before the memory goes.
    region: Option<(Region, Arc<Registrar>)>,
    descriptor: *mut c_void,
    /// From a box. A pointer, because the provider accesses the words while this process holds references to `self`.
    words: *mut [u64],
}

// SAFETY: the memory belongs to this object, and the descriptor is a token that is only passed back to the provider.
unsafe impl Send for OwnMemory {}
// SAFETY: a shared `OwnMemory` gives copies of two pointers only.
unsafe impl Sync for OwnMemory {}

impl OwnMemory {
    /// Zeroed memory of so many words.
    ///
    /// # Errors
    /// The provider's refusal to register it.
    pub(crate) fn new(registrar: &Arc<Registrar>, words: usize) -> Result<OwnMemory, Error> {
        let mut own = OwnMemory {
            region: None,
            descriptor: ptr::null_mut(),
            words: Box::into_raw(vec![0; words].into_boxed_slice()),
        };
        if registrar.local {
            let (base, bytes) = (own.words.cast(), words * size_of::<u64>());
            let region = registrar.register_own(base, bytes, Access::LOCAL_WRITE)?;
            let descriptor = registrar.regions().descriptor(&region.handle());
            own.descriptor = descriptor.map_or(ptr::null_mut(), |found| found.0);
            registrar.own.fetch_add(1, Ordering::Relaxed);
            own.region = Some((region, Arc::clone(registrar)));
        }
        Ok(own)
    }

    /// The words; valid as long as `self` lives.
    #[inline]
    pub(crate) fn words(&self) -> *mut [u64] {
        self.words
    }

    /// The first word, for the provider.
    #[inline]
    pub(crate) fn pointer(&self) -> *mut c_void {
        self.words.cast()
    }

    /// The descriptor that the provider takes with the memory; NULL where it asks for none.
    #[inline]
    pub(crate) fn descriptor(&self) -> *mut c_void {
        self.descriptor
    }
}

impl Drop for OwnMemory {
    fn drop(&mut self) {
        if let Some((region, registrar)) = self.region.take() {
            // The region keeps the device open, and thereby endpoints that may have receives posted.
            let shut = registrar.device.shut();
            registrar.own.fetch_sub(1, Ordering::Relaxed);
            drop(region);
            if shut.is_err() {
                // The provider may still use the words.
                return;
            }
        }
        // SAFETY: `new` made the pointer with Box::into_raw, and `drop` runs once.
        drop(unsafe { Box::from_raw(self.words) });
    }
}
