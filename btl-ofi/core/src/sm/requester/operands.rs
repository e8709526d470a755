//! The location of an operation's operands, and how they are copied to it.

use std::ptr;

/// Room for an operation's operands.
pub(crate) struct Room {
    pub(super) size: usize,
    /// Offset in the payload, and the address of this offset in this process; 0 and NULL if the operands fit in
    /// the command.
    pub(super) payload: u32,
    pub(super) at: *mut u8,
}

impl Room {
    /// Room in the command itself, for at most one word.
    #[inline(always)]
    pub(super) fn in_command(size: usize) -> Room {
        Room {
            size,
            payload: 0,
            at: ptr::null_mut(),
        }
    }
}

/// Copies operands or results. Operands and results are nearly always one word, and a call of memcpy would cost more.
///
/// # Safety
/// `from` is readable and `to` writable for `size` bytes, and the two ranges do not overlap.
#[inline(always)]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, size: usize) {
    // SAFETY: the caller guarantees that `from` is readable and `to` writable for `size` bytes, without overlap.
    unsafe {
        if size == size_of::<u64>() {
            to.cast::<u64>()
                .write_unaligned(from.cast::<u64>().read_unaligned());
        } else {
            ptr::copy_nonoverlapping(from, to, size);
        }
    }
}

/// The first `size` bytes of a word; its other bytes are zero. The word is built without a store to memory
/// that is then read as a whole.
///
/// # Safety
/// `from` is readable for `size` bytes, at most eight.
#[inline(always)]
pub(super) unsafe fn word_of(from: *const u8, size: usize) -> u64 {
    // SAFETY: the caller guarantees that `from` is readable for `size` bytes, which fit in the word.
    unsafe {
        if size == size_of::<u64>() {
            return from.cast::<u64>().read_unaligned();
        }
        let mut word = 0u64;
        ptr::copy_nonoverlapping(from, (&raw mut word).cast(), size);
        word
    }
}
