//! A window's own buffers for bytes in transfer, and the number of bytes packed in them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const WORD: usize = size_of::<u128>();

/// A buffer for bytes on their way. Leaked when a call gives up while an operation uses it.
pub(super) struct Bounce {
    words: Vec<u128>,
    in_use: bool,
}

impl Bounce {
    /// Allocates at least `len` bytes, aligned for every element type.
    pub(super) fn new(len: usize) -> Bounce {
        Bounce {
            words: vec![0; len.div_ceil(WORD).max(1)],
            in_use: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.words.len() * WORD
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast()
    }

    /// The bytes, while no operation uses them.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the words are initialised and borrowed mutably, and `len` is their size in bytes.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.len()) }
    }

    /// Sets whether operations use the buffer.
    pub(super) fn set_in_use(&mut self, in_use: bool) {
        self.in_use = in_use;
    }
}

impl Drop for Bounce {
    fn drop(&mut self) {
        if self.in_use {
            std::mem::forget(std::mem::take(&mut self.words));
        }
    }
}

/// The number of bytes that a window's operations under way have packed.
#[derive(Clone, Default)]
pub(super) struct PackedBytes(Arc<AtomicUsize>);

impl PackedBytes {
    /// The bytes.
    pub(super) fn now(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts bytes until the returned value is dropped.
    pub(super) fn count(&self, bytes: usize) -> Counted {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Counted(self.clone(), bytes)
    }
}

/// Bytes that are counted until this is dropped.
pub(super) struct Counted(PackedBytes, usize);

impl Drop for Counted {
    fn drop(&mut self) {
        // Relaxed: the count guards no memory.
        self.0.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}
