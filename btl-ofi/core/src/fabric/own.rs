//! The transport's own memory that the provider reads and writes.

use std::ffi::c_void;

/// Words that the provider may read and write until its endpoints are closed.
pub(crate) struct OwnMemory {
    /// The pointer of a box. The field is a raw pointer, because the provider accesses the words while this process holds
    /// references to `self`.
    words: *mut [u64],
}

// SAFETY: the memory belongs to this object.
unsafe impl Send for OwnMemory {}
// SAFETY: a shared `OwnMemory` only copies a pointer.
unsafe impl Sync for OwnMemory {}

impl OwnMemory {
    /// Zeroed memory of `words` words.
    pub(crate) fn new(words: usize) -> OwnMemory {
        OwnMemory {
            words: Box::into_raw(vec![0; words].into_boxed_slice()),
        }
    }

    /// The words; valid as long as `self` lives.
    #[inline]
    pub(crate) fn words(&self) -> *mut [u64] {
        self.words
    }

    /// The first word, for the provider.
    #[inline]
    pub(crate) fn pointer(&self) -> *mut c_void {
        self.words.cast()
    }
}

impl Drop for OwnMemory {
    fn drop(&mut self) {
        // SAFETY: `new` made the pointer with Box::into_raw, and `drop` runs once.
        drop(unsafe { Box::from_raw(self.words) });
    }
}
