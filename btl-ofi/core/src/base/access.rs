//! Accesses of this process to windows: its own, for its peers and for itself, and those of local peers that it maps.
//!
//! A window is memory that its owner keeps mapped while it is registered, with the rights that it registered. The
//! registration tried the access (`base::usable`); an owner that takes the memory away meanwhile gets the fault.
//!
//! Other threads and processes may access the same bytes at any time. A word of 4 or 8 bytes that is aligned in the
//! window is one access, as a thread that polls it expects, wherever it lies in this process's own memory.

use std::ptr;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Copies `size` bytes from this process's own memory into a window.
///
/// # Safety
/// `from` is readable and `window` is writable for `size` bytes. The ranges do not overlap.
#[inline]
pub(crate) unsafe fn put(from: *const u8, window: *mut u8, size: usize) {
    // SAFETY: the caller guarantees both ranges; the window's word was checked for alignment.
    unsafe {
        match size {
            8 if window.cast::<u64>().is_aligned() => {
                u64::store(window.cast(), from.cast::<u64>().read_unaligned());
            }
            4 if window.cast::<u32>().is_aligned() => {
                u32::store(window.cast(), from.cast::<u32>().read_unaligned());
            }
            _ => ptr::copy_nonoverlapping(from, window, size),
        }
    }
}

/// Copies `size` bytes of a window to this process's own memory.
///
/// # Safety
/// `window` is readable and `to` is writable for `size` bytes. The ranges do not overlap.
#[inline]
pub(crate) unsafe fn get(window: *const u8, to: *mut u8, size: usize) {
    // SAFETY: the caller guarantees both ranges; the window's word was checked for alignment.
    unsafe {
        match size {
            8 if window.cast::<u64>().is_aligned() => {
                let word = u64::load(window.cast_mut().cast());
                to.cast::<u64>().write_unaligned(word);
            }
            4 if window.cast::<u32>().is_aligned() => {
                let word = u32::load(window.cast_mut().cast());
                to.cast::<u32>().write_unaligned(word);
            }
            _ => ptr::copy_nonoverlapping(window, to, size),
        }
    }
}

/// Copies `size` bytes between two ranges that may overlap. Either range may be a window.
///
/// # Safety
/// `from` is readable and `to` is writable for `size` bytes.
#[cold]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, size: usize) {
    let apart = (from as usize).abs_diff(to as usize) >= size;
    // SAFETY: the caller guarantees both ranges. Only aligned words that do not overlap are accessed as words.
    unsafe {
        match size {
            8 if apart && aligned(from, to, 8) => {
                u64::store(to.cast(), u64::load(from.cast_mut().cast()));
            }
            4 if apart && aligned(from, to, 4) => {
                u32::store(to.cast(), u32::load(from.cast_mut().cast()));
            }
            _ => ptr::copy(from, to, size),
        }
    }
}

fn aligned(from: *const u8, to: *const u8, size: usize) -> bool {
    (from as usize | to as usize).is_multiple_of(size)
}

/// A word in a window, aligned to its size, that other threads and processes change atomically. Loads acquire, stores
/// release, and all other accesses do both. These accesses pair with the atomics of other threads and processes on the same
/// word.
pub(crate) trait Word: Sized {
    /// # Safety
    /// `at` is aligned, and can be read.
    unsafe fn load(at: *mut Self) -> Self;
    /// # Safety
    /// `at` is aligned, and can be written.
    unsafe fn store(at: *mut Self, value: Self);
    /// Writes `value`; returns the old value.
    ///
    /// # Safety
    /// `at` is aligned, and can be written.
    unsafe fn swap(at: *mut Self, value: Self) -> Self;
    /// Adds `value` and wraps around; returns the old value.
    ///
    /// # Safety
    /// `at` is aligned, and can be written.
    unsafe fn add(at: *mut Self, value: Self) -> Self;
    /// Writes `value` if the word equals `compare`; returns the old value.
    ///
    /// # Safety
    /// `at` is aligned, and can be written.
    unsafe fn cswap(at: *mut Self, compare: Self, value: Self) -> Self;
}

macro_rules! words {
    ($($word:ident in $cell:ident),+) => {$(
        impl Word for $word {
            #[inline]
            unsafe fn load(at: *mut Self) -> Self {
                // SAFETY: the caller guarantees that `at` is aligned and can be used for this access.
                unsafe { $cell::from_ptr(at) }.load(Ordering::Acquire)
            }
            #[inline]
            unsafe fn store(at: *mut Self, value: Self) {
                // SAFETY: the caller guarantees that `at` is aligned and can be used for this access.
                unsafe { $cell::from_ptr(at) }.store(value, Ordering::Release);
            }
            #[inline]
            unsafe fn swap(at: *mut Self, value: Self) -> Self {
                // SAFETY: the caller guarantees that `at` is aligned and can be used for this access.
                unsafe { $cell::from_ptr(at) }.swap(value, Ordering::AcqRel)
            }
            #[inline]
            unsafe fn add(at: *mut Self, value: Self) -> Self {
                // SAFETY: the caller guarantees that `at` is aligned and can be used for this access.
                unsafe { $cell::from_ptr(at) }.fetch_add(value, Ordering::AcqRel)
            }
            #[inline]
            unsafe fn cswap(at: *mut Self, compare: Self, value: Self) -> Self {
                // SAFETY: the caller guarantees that `at` is aligned and can be used for this access.
                let cell = unsafe { $cell::from_ptr(at) };
                let (yes, no) = (Ordering::AcqRel, Ordering::Acquire);
                match cell.compare_exchange(compare, value, yes, no) {
                    Ok(old) | Err(old) => old,
                }
            }
        }
    )+};
}

words!(u8 in AtomicU8, u16 in AtomicU16, u32 in AtomicU32, u64 in AtomicU64);

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(size: usize) -> Vec<u8> {
        (0..size).map(|i| (i * 7 + i / 251) as u8).collect()
    }

    #[test]
    fn copies_of_all_sizes() {
        let sizes = (0..80).chain([255, 256, 257, 2049, 8192, 20_000]);
        for size in sizes {
            for (skew, other) in [(0, 0), (1, 0), (0, 3), (4, 4), (5, 8), (7, 7)] {
                let from = numbered(size + other);
                let mut window = vec![0xddu8; size + skew + 1];
                let mut to = vec![0xeeu8; size + other + 1];
                // SAFETY: the vectors hold `size` bytes behind the offsets.
                unsafe {
                    let window = window[skew..].as_mut_ptr();
                    put(from[other..].as_ptr(), window, size);
                    get(window, to[other..].as_mut_ptr(), size);
                }
                assert_eq!(window[size + skew], 0xdd, "{size}");
                assert_eq!(to[other..size + other], from[other..], "{size}");
                assert_eq!(to[size + other], 0xee, "{size}");
            }
        }
    }

    #[test]
    fn copies_onto_themselves() {
        for size in [4, 8, 100, 5000] {
            for (from, to) in [(100, 96), (96, 100), (50, 50), (1, 5001), (8, 16)] {
                let mut memory = numbered(12_000);
                let expected = memory[from..from + size].to_vec();
                let at = memory.as_mut_ptr();
                // SAFETY: both ranges lie in the vector.
                unsafe { copy(at.add(from), at.add(to), size) };
                assert_eq!(memory[to..to + size], expected, "{from} to {to}");
                assert_eq!(memory[to + size..], numbered(12_000)[to + size..]);
            }
        }
    }
}
