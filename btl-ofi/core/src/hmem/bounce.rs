//! A bounded pool of host buffers for data between a device and the provider.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::AtomicI32;

use super::mailbox::FRAGMENT;
use crate::mem::cuda;

/// Most buffers of one transport: enough for a full lane and one more operation.
const MOST: usize = 16;
const PAGE: usize = 4096;

/// A buffer of [`FRAGMENT`] bytes.
pub(crate) struct Bounce {
    base: NonNull<u8>,
    pinned: bool,
    /// State of the provider's operation on the buffer (`engine::staging::wire`). Boxed, because the operation refers
    /// to it by address.
    flag: Box<AtomicI32>,
}

// SAFETY: the buffer owns its memory, which is not tied to a thread.
unsafe impl Send for Bounce {}

impl Bounce {
    fn layout() -> Option<Layout> {
        Layout::from_size_align(FRAGMENT, PAGE).ok()
    }

    fn new() -> Option<Bounce> {
        // SAFETY: the layout has FRAGMENT bytes, not 0.
        let base = NonNull::new(unsafe { alloc(Bounce::layout()?) })?;
        Some(Bounce {
            base,
            pinned: cuda::pin(base.as_ptr(), FRAGMENT),
            flag: Box::default(),
        })
    }

    pub(crate) fn pointer(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    pub(crate) fn flag(&self) -> &AtomicI32 {
        &self.flag
    }

    /// Leaks the memory: a peer that was given up may still write to it.
    pub(crate) fn abandon(self) {
        std::mem::forget(self);
    }
}

impl Drop for Bounce {
    fn drop(&mut self) {
        if self.pinned && !cuda::unpin(self.base.as_ptr()) {
            return;
        }
        if let Some(layout) = Bounce::layout() {
            // SAFETY: `new` allocated the memory with this layout, and only this drop frees it.
            unsafe { dealloc(self.base.as_ptr(), layout) };
        }
    }
}

/// The pool. It lends the buffer that was returned last, because that one is still in the cache.
#[derive(Default)]
pub(crate) struct Pool {
    free: Vec<Bounce>,
    made: usize,
}

impl Pool {
    /// A buffer; `None` while all are lent, or if memory is exhausted.
    pub(crate) fn lend(&mut self) -> Option<Bounce> {
        if let Some(bounce) = self.free.pop() {
            return Some(bounce);
        }
        if self.made == MOST {
            return None;
        }
        let bounce = Bounce::new()?;
        self.made += 1;
        Some(bounce)
    }

    pub(crate) fn give_back(&mut self, bounce: Bounce) {
        self.free.push(bounce);
    }

    /// [Abandons](Bounce::abandon) a lent buffer, so that a new one can replace it.
    pub(crate) fn lose(&mut self, bounce: Bounce) {
        bounce.abandon();
        self.made -= 1;
    }
}
