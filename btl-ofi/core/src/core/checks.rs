//! What fast paths check before side effects.

use std::ffi::c_void;

use crate::base::hints::branch;
use crate::core::state::Core;
use crate::mem::handle::{Handle, Target};
use crate::op::completion::Completion;

impl Core {
    /// Checks a transfer for the fast path and returns its target for the provider. `None` unless it has at
    /// least one byte, at most `limit` bytes, and a live region of host memory that allows peers every access.
    #[inline(always)]
    pub(crate) fn place(
        &self,
        local: *mut c_void,
        remote: &Handle,
        remote_address: u64,
        size: usize,
        limit: usize,
    ) -> Option<Target> {
        branch();
        // The subtraction wraps, so that zero bytes also fail this check.
        if size.wrapping_sub(1) >= limit {
            return None;
        }
        branch();
        if local.is_null() {
            return None;
        }
        branch();
        let virtual_addresses = self.quick.virtual_addresses;
        remote.open_target(remote_address, size as u64, virtual_addresses)
    }

    /// Whether the quick path makes a transfer by CMA if the ring does not make it. Otherwise the slow path does, which asks for
    /// the ring again.
    #[inline(always)]
    pub(crate) fn copies_quickly(&self, completion: Option<Completion>) -> bool {
        completion.is_none() || self.setup.answers_at_once
    }
}
