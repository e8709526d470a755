//! A bounded pool of host buffers for data on its way between a device and the wire.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::AtomicI32;

use super::mailbox::FRAGMENT;
use crate::mem::cuda;

/// Most buffers of one transport: enough for a full lane, and another operation beside it.
const MOST: usize = 16;
const PAGE: usize = 4096;

/// A buffer of [`FRAGMENT`] bytes, on loan.
pub(crate) struct Bounce {
    base: NonNull<u8>,
    pinned: bool,
    /// How the wire's operation on it stands (`wire`). Boxed: the operation names it by address.
    flag: Box<AtomicI32>,
}

// SAFETY: owned memory.
unsafe impl Send for Bounce {}

impl Bounce {
    fn layout() -> Option<Layout> {
        Layout::from_size_align(FRAGMENT, PAGE).ok()
    }

    fn new() -> Option<Bounce> {
        // SAFETY: a layout of FRAGMENT bytes.
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

    /// Gives the memory up for good: a peer that was given up may still write there.
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
            // SAFETY: allocated with this layout, and freed once.
            unsafe { dealloc(self.base.as_ptr(), layout) };
        }
    }
}

/// The pool: the buffer given back last is lent first, because it is still in the cache.
#[derive(Default)]
pub(crate) struct Pool {
    free: Vec<Bounce>,
    made: usize,
}

impl Pool {
    /// A buffer; `None` while all are on loan, or there is no memory.
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

    /// Counts one out that was [abandoned](Bounce::abandon), so that another can take its place.
    pub(crate) fn lose(&mut self, bounce: Bounce) {
        bounce.abandon();
        self.made -= 1;
    }
}
