//! Words and bytes of windows, by the routines of this architecture (`arch`).

use std::ffi::c_void;

use super::{Fault, arch};

/// What a routine returns, in two registers.
#[repr(C)]
struct Outcome {
    value: u64,
    fault: u64,
}

impl Outcome {
    #[inline(always)]
    fn checked(self) -> Result<u64, Fault> {
        if self.fault == 0 {
            Ok(self.value)
        } else {
            Err(Fault)
        }
    }
}

unsafe extern "C" {
    static btl_ofi_guard_begin: u8;
    static btl_ofi_guard_end: u8;
    static btl_ofi_guard_fault: u8;
    fn btl_ofi_guard_copy(to: *mut u8, from: *const u8, size: usize) -> Outcome;
}

/// Whether a handler can recognise the routines.
pub(super) const GUARDED: bool = true;

/// Has a routine that a fault interrupted return it; false if no routine was interrupted.
///
/// # Safety
/// `context` is the one that the kernel gave a signal handler with SA_SIGINFO.
pub(super) unsafe fn recover(context: *mut c_void) -> bool {
    // SAFETY: as the caller vouches.
    let at = unsafe { arch::interrupted(context) };
    let begin = &raw const btl_ofi_guard_begin as u64;
    let end = &raw const btl_ofi_guard_end as u64;
    // SAFETY: a register in the context.
    unsafe {
        if *at < begin || *at >= end {
            return false;
        }
        *at = &raw const btl_ofi_guard_fault as u64;
    }
    true
}

/// Copies upwards.
///
/// # Safety
/// Both sides name memory that may be used so as far as it is mapped, and they do not overlap.
#[inline]
pub(super) unsafe fn copy(to: *mut u8, from: *const u8, size: usize) -> Result<(), Fault> {
    // SAFETY: as the caller vouches; what is not mapped is a fault, which is returned.
    let outcome = unsafe { btl_ofi_guard_copy(to, from, size) };
    outcome.checked().map(drop)
}

/// A word in a window, aligned to its size, that others change atomically. Every access acquires, and
/// releases where it writes.
pub(crate) trait Word: Sized {
    /// # Safety
    /// `at` is aligned, and names memory that may be read as far as it is mapped.
    unsafe fn load(at: *mut Self) -> Result<Self, Fault>;
    /// # Safety
    /// `at` is aligned, and names memory that may be written as far as it is mapped.
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
    ($($word:ident: $load:ident $store:ident $swap:ident $add:ident $cswap:ident;)+) => {$(
        unsafe extern "C" {
            fn $load(at: *mut $word) -> Outcome;
            fn $store(at: *mut $word, value: u64) -> Outcome;
            fn $swap(at: *mut $word, value: u64) -> Outcome;
            fn $add(at: *mut $word, value: u64) -> Outcome;
            fn $cswap(at: *mut $word, value: u64, compare: u64) -> Outcome;
        }

        // What a routine returns above the word's own bits means nothing.
        impl Word for $word {
            #[inline]
            unsafe fn load(at: *mut Self) -> Result<Self, Fault> {
                // SAFETY: as the caller vouches; what is not mapped is a fault, which is returned.
                Ok(unsafe { $load(at) }.checked()? as $word)
            }
            #[inline]
            unsafe fn store(at: *mut Self, value: Self) -> Result<(), Fault> {
                // SAFETY: as the caller vouches; what is not mapped is a fault, which is returned.
                unsafe { $store(at, u64::from(value)) }.checked().map(drop)
            }
            #[inline]
            unsafe fn swap(at: *mut Self, value: Self) -> Result<Self, Fault> {
                // SAFETY: as the caller vouches; what is not mapped is a fault, which is returned.
                Ok(unsafe { $swap(at, u64::from(value)) }.checked()? as $word)
            }
            #[inline]
            unsafe fn add(at: *mut Self, value: Self) -> Result<Self, Fault> {
                // SAFETY: as the caller vouches; what is not mapped is a fault, which is returned.
                Ok(unsafe { $add(at, u64::from(value)) }.checked()? as $word)
            }
            #[inline]
            unsafe fn cswap(at: *mut Self, compare: Self, value: Self) -> Result<Self, Fault> {
                let (compare, value) = (u64::from(compare), u64::from(value));
                // SAFETY: as the caller vouches; what is not mapped is a fault, which is returned.
                Ok(unsafe { $cswap(at, value, compare) }.checked()? as $word)
            }
        }
    )+};
}

words! {
    u8: btl_ofi_guard_load8 btl_ofi_guard_store8 btl_ofi_guard_swap8 btl_ofi_guard_add8
        btl_ofi_guard_cswap8;
    u16: btl_ofi_guard_load16 btl_ofi_guard_store16 btl_ofi_guard_swap16 btl_ofi_guard_add16
        btl_ofi_guard_cswap16;
    u32: btl_ofi_guard_load32 btl_ofi_guard_store32 btl_ofi_guard_swap32 btl_ofi_guard_add32
        btl_ofi_guard_cswap32;
    u64: btl_ofi_guard_load64 btl_ofi_guard_store64 btl_ofi_guard_swap64 btl_ofi_guard_add64
        btl_ofi_guard_cswap64;
}
