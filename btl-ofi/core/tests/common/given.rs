//! The bytes that a program's allocator has allocated. Libraries such as libfabric and its providers have another allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static GIVEN: AtomicUsize = AtomicUsize::new(0);

/// The bytes that are allocated now.
pub(crate) fn given() -> usize {
    GIVEN.load(Ordering::Relaxed)
}

/// The allocator of a program that asks for [`given`].
pub(crate) struct Counting;

// SAFETY: every call is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        GIVEN.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of the system allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        GIVEN.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller guarantees that `pointer` came from this allocator, so from the system's, with `layout`.
        unsafe { System.dealloc(pointer, layout) }
    }
}
