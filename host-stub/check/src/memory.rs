//! Memory of the caller for windows, and the exchange of its addresses.

use super::case::{Context, Failure};

/// Memory of a test that a window may use; leaked if the test fails.
pub(super) struct Memory {
    pub(super) base: *mut u8,
    len: usize,
}

impl Memory {
    pub(super) fn new(bytes: &[u8]) -> Memory {
        let words = vec![0u64; bytes.len().div_ceil(8)];
        let base = Box::into_raw(words.into_boxed_slice()).cast::<u8>();
        let memory = Memory {
            base,
            len: bytes.len(),
        };
        memory.write(bytes);
        memory
    }

    pub(super) fn write(&self, bytes: &[u8]) {
        let len = bytes.len().min(self.len);
        // SAFETY: the memory has `len` bytes, and lives until `release`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base, len) };
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        // SAFETY: as in `write`.
        unsafe { std::ptr::copy_nonoverlapping(self.base, bytes.as_mut_ptr(), self.len) };
        bytes
    }

    pub(super) fn address(&self) -> u64 {
        self.base as u64
    }

    /// Frees it. No window uses the memory any more.
    pub(super) fn release(self) {
        let words =
            std::ptr::slice_from_raw_parts_mut(self.base.cast::<u64>(), self.len.div_ceil(8));
        // SAFETY: made by `new` from a box of the same length, and consumed here.
        drop(unsafe { Box::from_raw(words) });
    }
}

/// Sends an address to every rank, and returns the addresses of all.
pub(super) fn addresses(context: &Context<'_>, mine: u64) -> Result<Vec<u64>, Failure> {
    let words = context.gather(&[mine as i64])?;
    Ok(words.into_iter().map(|word| word as u64).collect())
}
