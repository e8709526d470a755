//! A region at the provider. A region bound to the endpoint (`FI_MR_ENDPOINT`) must be closed before the endpoint, and the
//! endpoint may have to be closed at any time. So the device owns such regions, and closes them right before the endpoint.

use std::ptr::NonNull;
use std::sync::Arc;

use libfabric_sys as ffi;

use crate::base::error::CallError;
use crate::fabric::device::Device;
use crate::fabric::fids::Owned;
use crate::mem::device_regions::Descriptor;

/// An open region of the provider. Dropping the value closes the region.
pub(crate) enum Registered {
    Free(Owned<ffi::fid_mr>),
    Bound(Bound),
}

/// The fields of a region that a registration reads when the region is ready for use.
pub(super) struct Fields {
    /// [`ffi::FI_KEY_NOTAVAIL`] if the provider has no key.
    pub(super) key: u64,
    pub(super) descriptor: Descriptor,
}

/// A region that the device keeps until it is closed, at the latest together with the endpoint.
pub(crate) struct Bound {
    region: NonNull<ffi::fid_mr>,
    device: Arc<Device>,
}

// SAFETY: the pointer is only a name of an object of libfabric for the device, and this object is not
// tied to a thread.
unsafe impl Send for Bound {}
// SAFETY: the pointer is only a name of an object of libfabric for the device; a shared `Bound` gives
// no access to the object.
unsafe impl Sync for Bound {}

impl Registered {
    /// A region that need not be bound.
    pub(super) fn free(region: Owned<ffi::fid_mr>) -> (Registered, Fields) {
        let fields = Fields::of(&region);
        (Registered::Free(region), fields)
    }

    /// Binds a region to the device's endpoint, and enables it.
    ///
    /// # Errors
    /// The provider's refusal, or -FI_ESHUTDOWN if the endpoint is already closed. In both cases the
    /// region is closed.
    pub(super) fn bound(
        region: Owned<ffi::fid_mr>,
        device: &Arc<Device>,
    ) -> Result<(Registered, Fields), CallError> {
        let (region, fields) = device.bind(region, Fields::of)?;
        let device = Arc::clone(device);
        Ok((Registered::Bound(Bound { region, device }), fields))
    }

    /// Closes the region and reports the result.
    pub(super) fn close(self) -> Result<(), CallError> {
        match self {
            Registered::Free(region) => region.close(),
            // The drop that follows finds the region already closed.
            Registered::Bound(bound) => bound.device.close_bound(bound.region),
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let Err(e) = self.device.close_bound(self.region) {
            tracing::warn!("closing a memory region: {e}");
        }
    }
}

impl Fields {
    fn of(region: &Owned<ffi::fid_mr>) -> Fields {
        // SAFETY: the region is live; both are plain fields (fi_mr_key, fi_mr_desc).
        unsafe {
            Fields {
                key: (*region.ptr()).key,
                descriptor: Descriptor((*region.ptr()).mem_desc),
            }
        }
    }
}
