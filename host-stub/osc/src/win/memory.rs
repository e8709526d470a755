//! Memory that callers allocate for their windows.

use std::ptr::NonNull;

use super::error::{WinError, WinResult};
use crate::base::Pages;

/// Allocates zeroed memory on separate pages for windows and transfers. The memory belongs to no
/// window (MPI_Alloc_mem). [`WinError::BadArgument`]: the system has no such memory.
pub fn alloc_mem(len: usize) -> WinResult<NonNull<u8>> {
    match Pages::new(len) {
        Some(pages) => Ok(pages.into_base()),
        None => Err(Box::new(WinError::BadArgument {
            call: "alloc_mem",
            reason: format!("there is no memory of {len} B"),
        })),
    }
}

/// Frees memory of [`alloc_mem`].
///
/// # Safety
/// The memory came from `alloc_mem` with this length, is freed once, and is not in use: no window
/// contains it and no operation is under way on it.
pub unsafe fn free_mem(base: NonNull<u8>, len: usize) {
    // SAFETY: the caller vouches for the memory and its length.
    drop(unsafe { Pages::from_base(base, len) });
}
