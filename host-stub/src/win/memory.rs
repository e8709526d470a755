//! Memory that a window owns.

use std::alloc::{Layout as AllocLayout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

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
        let layout = AllocLayout::from_size_align(len.max(1), ALIGNMENT)
            .ok()?
            .pad_to_align();
        // SAFETY: the layout has at least one byte.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Pages { base, layout })
    }

    #[inline]
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}
