//! The addresses of peers at the provider, and the preparations for the provider's first use by a
//! peer.

use crate::base::error::{CallError, check};
use crate::core::state::Core;
use crate::peer::endpoint::{Endpoint, OFF_ROUTE, REMOVED};
use libfabric_sys as ffi;
use std::sync::atomic::Ordering;

impl Core {
    /// The caller must make this call before it posts an operation to the provider against the
    /// peer's route.
    pub(crate) fn leave_route(&self, peer: &Endpoint) {
        if !peer.uses_provider() {
            peer.mark(OFF_ROUTE);
            self.node.uses_fabric.store(true, Ordering::Relaxed);
        }
    }

    /// Removes a peer's address from the provider's address vector, if it is still there.
    pub(crate) fn remove_address(&self, peer: &Endpoint) -> Result<(), CallError> {
        if peer.mark(REMOVED) {
            return Ok(());
        }
        self.device.addresses().remove(peer.address)
    }

    /// The address that a connected peer published.
    pub(crate) fn address_of(&self, peer: &Endpoint) -> Result<Vec<u8>, CallError> {
        let mut name = vec![0u8; 512];
        let mut length = name.len();
        // SAFETY: the buffer has `length` bytes; the address came from this address vector.
        let found = unsafe {
            ffi::fi_av_lookup(
                self.device.av(),
                peer.address,
                name.as_mut_ptr().cast(),
                &mut length,
            )
        };
        check("fi_av_lookup", found)?;
        name.truncate(length);
        Ok(name)
    }
}
