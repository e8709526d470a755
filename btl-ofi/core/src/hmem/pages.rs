//! The memory of a mailbox.

use std::alloc::{self, Layout};
use std::ptr::NonNull;

use crate::mem::cuda;

/// Page-aligned zeroed memory that peers write and read.
pub(super) struct Pages {
    pub(super) base: NonNull<u8>,
    pub(super) layout: Layout,
    /// Pinned for CUDA, so that device copies run at the speed of the bus.
    pub(super) pinned: bool,
}

// SAFETY: `Pages` owns its memory, which is not tied to a thread.
unsafe impl Send for Pages {}
// SAFETY: shared access goes through raw pointers and atomics only, never through references to plain data.
unsafe impl Sync for Pages {}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.pinned && !cuda::unpin(self.base.as_ptr()) {
            return;
        }
        // SAFETY: `MailboxServer::new` allocated the memory with this layout, and only this drop frees it.
        unsafe { alloc::dealloc(self.base.as_ptr(), self.layout) };
    }
}
