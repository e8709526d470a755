//! Handles of local buffers, which are of use for device memory alone.

use std::ffi::c_void;

use plugin_api::{Handle as HostHandle, Status};

use crate::mem::handle::Handle;

/// Refuses a local handle that was deregistered or does not cover the buffer. NULL is allowed.
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
