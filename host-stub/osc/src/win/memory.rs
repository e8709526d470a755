//! Memory that callers allocate for their windows.

use std::ptr::NonNull;

use super::error::{WinError, WinResult};
use crate::base::Pages;

/// Memory for the caller, zeroed, on pages of its own: good to make windows of and to transfer from.
/// Belongs to no window, so no window's functions decide what it is (MPI_Alloc_mem).
/// [`WinError::BadArgument`]: there is no such memory.
pub fn alloc_mem(len: usize) -> WinResult<NonNull<u8>> {
    match Pages::new(len) {
        Some(pages) => Ok(pages.into_base()),
        None => Err(Box::new(WinError::BadArgument {
            call: "alloc_mem",
            reason: format!("there is no memory of {len} B"),
        })),
    }
}

/// Gives memory of [`alloc_mem`] back.
///
/// # Safety
/// It came from `alloc_mem` with this length, is given back once, and nothing uses it: no window
/// is made of it and no operation is under way.
pub unsafe fn free_mem(base: NonNull<u8>, len: usize) {
    // SAFETY: the caller vouches for the memory and its length.
    drop(unsafe { Pages::from_base(base, len) });
}
