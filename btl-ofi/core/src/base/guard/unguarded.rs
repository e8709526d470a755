//! Words and bytes of windows where there are no routines for the architecture: by ordinary instructions,
//! after the kernel has checked the pages ([`Reach::Kernel`](super::Reach)).

use std::ffi::c_void;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::Fault;

/// Whether a handler can recognise the routines.
pub(super) const GUARDED: bool = false;

/// No fault is recognised.
///
/// # Safety
/// None is needed here.
pub(super) unsafe fn recover(_: *mut c_void) -> bool {
    false
}

/// Copies upwards.
///
/// # Safety
/// Both sides can be used so, and they do not overlap.
pub(super) unsafe fn copy(to: *mut u8, from: *const u8, size: usize) -> Result<(), Fault> {
    // SAFETY: as the caller vouches.
    unsafe { std::ptr::copy_nonoverlapping(from, to, size) };
    Ok(())
}

/// A word in a window, aligned to its size, that others change atomically.
///
/// The functions never fail here; their callers have asked the kernel before.
pub(crate) trait Word: Sized {
    /// # Safety
    /// `at` is aligned, and can be read.
    unsafe fn load(at: *mut Self) -> Result<Self, Fault>;
    /// # Safety
    /// `at` is aligned, and can be written.
    unsafe fn store(at: *mut Self, value: Self) -> Result<(), Fault>;
    /// What was there.
    ///
    /// # Safety
    /// As for [`store`](Self::store).
    unsafe fn swap(at: *mut Self, value: Self) -> Result<Self, Fault>;
    /// Adds, and wraps around; what was there.
    ///
    /// # Safety
    /// As for [`store`](Self::store).
    unsafe fn add(at: *mut Self, value: Self) -> Result<Self, Fault>;
    /// Writes `value` where `compare` is; what was there.
    ///
    /// # Safety
    /// As for [`store`](Self::store).
    unsafe fn cswap(at: *mut Self, compare: Self, value: Self) -> Result<Self, Fault>;
}

macro_rules! words {
    ($($word:ident in $cell:ident),+) => {$(
        impl Word for $word {
            unsafe fn load(at: *mut Self) -> Result<Self, Fault> {
                // SAFETY: as the caller vouches.
                Ok(unsafe { $cell::from_ptr(at) }.load(Ordering::Acquire))
            }
            unsafe fn store(at: *mut Self, value: Self) -> Result<(), Fault> {
                // SAFETY: as the caller vouches.
                unsafe { $cell::from_ptr(at) }.store(value, Ordering::Release);
                Ok(())
            }
            unsafe fn swap(at: *mut Self, value: Self) -> Result<Self, Fault> {
                // SAFETY: as the caller vouches.
                Ok(unsafe { $cell::from_ptr(at) }.swap(value, Ordering::AcqRel))
            }
            unsafe fn add(at: *mut Self, value: Self) -> Result<Self, Fault> {
                // SAFETY: as the caller vouches.
                Ok(unsafe { $cell::from_ptr(at) }.fetch_add(value, Ordering::AcqRel))
            }
            unsafe fn cswap(at: *mut Self, compare: Self, value: Self) -> Result<Self, Fault> {
                // SAFETY: as the caller vouches.
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
