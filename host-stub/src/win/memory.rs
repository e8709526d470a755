//! Memory that a window owns.

use std::alloc::{Layout as AllocLayout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use super::error::{WinError, WinResult};

/// Zeroed, page-aligned memory, freed on drop. Peers may write it at any time, so nothing here
/// makes a reference to its contents.
pub(crate) struct Pages {
    base: NonNull<u8>,
    layout: AllocLayout,
}

// SAFETY: owned memory, reached through raw pointers and atomics only.
unsafe impl Send for Pages {}
// SAFETY: as for Send.
unsafe impl Sync for Pages {}

/// Page size, so that no page is shared with other data when a provider pins or maps it.
const ALIGNMENT: usize = 4096;

impl Pages {
    /// `len` bytes (at least one page); `None` when there is no such memory.
    pub(crate) fn new(len: usize) -> Option<Pages> {
        let layout = layout(len)?;
        // SAFETY: the layout has at least one byte.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Pages { base, layout })
    }

    #[inline]
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }
}

/// Memory for the caller, zeroed, on pages of its own: good to make windows of and to transfer from.
/// Belongs to no window, so no window's functions decide what it is (MPI_Alloc_mem).
/// [`WinError::BadArgument`]: there is no such memory.
pub fn alloc_mem(len: usize) -> WinResult<NonNull<u8>> {
    match Pages::new(len) {
        Some(pages) => Ok(std::mem::ManuallyDrop::new(pages).base),
        None => Err(WinError::BadArgument {
            call: "alloc_mem",
            reason: format!("there is no memory of {len} B"),
        }),
    }
}

/// Gives memory of [`alloc_mem`] back.
///
/// # Safety
/// It came from `alloc_mem` with this length, is given back once, and nothing uses it: no window
/// is made of it and no operation is under way.
pub unsafe fn free_mem(base: NonNull<u8>, len: usize) {
    if let Some(layout) = layout(len) {
        drop(Pages { base, layout });
    }
}

fn layout(len: usize) -> Option<AllocLayout> {
    let layout = AllocLayout::from_size_align(len.max(1), ALIGNMENT).ok()?;
    Some(layout.pad_to_align())
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}
