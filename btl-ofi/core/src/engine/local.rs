//! Local buffers: their handles, and the descriptors that a provider takes with them where it requires local buffers to be
//! registered (`FI_MR_LOCAL`).

use std::ffi::c_void;

use plugin_api::{Handle as HostHandle, Status};

use crate::engine::post::Caller;
use crate::engine::transport::Transport;
use crate::mem::device_regions::Descriptor;
use crate::mem::handle::Handle;

/// Refuses a local handle that was deregistered or does not cover the buffer. NULL is allowed here:
/// [`descriptor`](Transport::descriptor) refuses it where the provider needs one.
///
/// # Safety
/// `handle` is NULL or readable for the size of a handle.
#[inline(always)]
pub(crate) unsafe fn check_local(
    handle: *mut HostHandle,
    address: *const c_void,
    size: usize,
) -> Result<(), Status> {
    // SAFETY: the caller guarantees that the handle is NULL or readable; `Handle` has no alignment requirement.
    match unsafe { handle.cast::<Handle>().as_ref() } {
        None => Ok(()),
        Some(handle) => handle.covers(address as u64, size as u64),
    }
}

impl Transport {
    /// The descriptor of the local buffer of a checked put or get, if the provider requires one.
    #[inline(always)]
    pub(super) fn descriptor(&self, caller: &Caller) -> Result<Option<Descriptor>, Status> {
        match self.setup.local_registration {
            true => self.described_by(caller.local_handle).map(Some),
            false => Ok(None),
        }
    }

    /// The descriptor of the live region of a local handle.
    #[cold]
    #[inline(never)]
    fn described_by(&self, handle: *mut HostHandle) -> Result<Descriptor, Status> {
        // SAFETY: the caller of the operation guarantees that the handle is NULL or readable; `Handle` has no alignment
        // requirement.
        let handle = unsafe { handle.cast::<Handle>().as_ref() };
        let known = handle.and_then(|handle| self.registrar.regions().descriptor(handle));
        if known.is_none() {
            tracing::error!(
                "a put or get of more than {} bytes comes without the handle of its local buffer, which the provider \
                 requires to be registered (FI_MR_LOCAL)",
                self.setup.message_limits.0
            );
        }
        known.ok_or(Status::BAD_PARAM)
    }
}
