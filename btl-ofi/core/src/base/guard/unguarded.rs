//! Words and bytes of windows on architectures without routines: ordinary instructions, after the kernel checked the
//! pages ([`Reach::Kernel`](super::Reach)).

use std::ffi::c_void;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::Fault;

/// Whether a signal handler can recognise a fault in the routines.
pub(super) const GUARDED: bool = false;

/// Recognises no fault.
///
/// # Safety
/// Always sound.
pub(super) unsafe fn recover(_: *mut c_void) -> bool {
    false
}

/// Copies `size` bytes.
///
/// # Safety
/// `from` is readable and `to` is writable for `size` bytes. The ranges do not overlap.
pub(super) unsafe fn copy(to: *mut u8, from: *const u8, size: usize) -> Result<(), Fault> {
    // SAFETY: the caller guarantees that the ranges can be read and written, and do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(from, to, size) };
    Ok(())
}

/// A word in a window, aligned to its size, that others change atomically.
///
/// The functions never fail here; their callers probe the pages first.
pub(crate) trait Word: Sized {
    /// # Safety
    /// `at` is aligned, and can be read.
    unsafe fn load(at: *mut Self) -> Result<Self, Fault>;
    /// # Safety
    /// `at` is aligned, and can be written.
    unsafe fn store(at: *mut Self, value: Self) -> Result<(), Fault>;
    /// Writes `value`; returns the old value.
    ///
    /// # Safety
    /// `at` is aligned, and can be written.
    unsafe fn swap(at: *mut Self, value: Self) -> Result<Self, Fault>;
    /// Adds `value` and wraps around; returns the old value.
    ///
    /// # Safety
    /// `at` is aligned, and can be written.
    unsafe fn add(at: *mut Self, value: Self) -> Result<Self, Fault>;
    /// Writes `value` if the word equals `compare`; returns the old value.
    ///
    /// # Safety
    /// `at` is aligned, and can be written.
    unsafe fn cswap(at: *mut Self, compare: Self, value: Self) -> Result<Self, Fault>;
}

macro_rules! words {
    ($($word:ident in $cell:ident),+) => {$(
        impl Word for $word {
            unsafe fn load(at: *mut Self) -> Result<Self, Fault> {
                // SAFETY: the caller guarantees that `at` is aligned and can be used for this access.
                Ok(unsafe { $cell::from_ptr(at) }.load(Ordering::Acquire))
            }
            unsafe fn store(at: *mut Self, value: Self) -> Result<(), Fault> {
                // SAFETY: the caller guarantees that `at` is aligned and can be used for this access.
                unsafe { $cell::from_ptr(at) }.store(value, Ordering::Release);
                Ok(())
            }
            unsafe fn swap(at: *mut Self, value: Self) -> Result<Self, Fault> {
                // SAFETY: the caller guarantees that `at` is aligned and can be used for this access.
                Ok(unsafe { $cell::from_ptr(at) }.swap(value, Ordering::AcqRel))
            }
            unsafe fn add(at: *mut Self, value: Self) -> Result<Self, Fault> {
                // SAFETY: the caller guarantees that `at` is aligned and can be used for this access.
                Ok(unsafe { $cell::from_ptr(at) }.fetch_add(value, Ordering::AcqRel))
            }
            unsafe fn cswap(at: *mut Self, compare: Self, value: Self) -> Result<Self, Fault> {
                // SAFETY: the caller guarantees that `at` is aligned and can be used for this access.
                let cell = unsafe { $cell::from_ptr(at) };
                let (yes, no) = (Ordering::AcqRel, Ordering::Acquire);
                match cell.compare_exchange(compare, value, yes, no) {
                    Ok(old) | Err(old) => Ok(old),
                }
            }
        }
    )+};
}

words!(u8 in AtomicU8, u16 in AtomicU16, u32 in AtomicU32, u64 in AtomicU64);
