//! Words and bytes of windows, accessed by the assembly routines of this architecture (`arch`).

use std::ffi::c_void;

use super::{Fault, arch};

/// The return value of a routine, in two registers.
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

/// Whether a signal handler can recognise a fault in the routines.
pub(super) const GUARDED: bool = true;

/// Makes a routine that a fault interrupted return [`Fault`]. Returns false if no routine was interrupted.
///
/// # Safety
/// `context` is the context that the kernel passes to a signal handler with SA_SIGINFO.
pub(super) unsafe fn recover(context: *mut c_void) -> bool {
    // SAFETY: the caller guarantees that `context` comes from the kernel, so it points to a ucontext_t.
    let at = unsafe { arch::interrupted(context) };
    let begin = &raw const btl_ofi_guard_begin as u64;
    let end = &raw const btl_ofi_guard_end as u64;
    // SAFETY: `at` points to the program counter in the context, which lives until the handler returns.
    unsafe {
        if *at < begin || *at >= end {
            return false;
        }
        *at = &raw const btl_ofi_guard_fault as u64;
    }
    true
}

/// Copies `size` bytes in the order of their addresses.
///
/// # Safety
/// `from` names memory that may be read, `to` memory that may be written, each as far as it is mapped. The ranges do
/// not overlap.
#[inline]
pub(super) unsafe fn copy(to: *mut u8, from: *const u8, size: usize) -> Result<(), Fault> {
    // SAFETY: the caller guarantees the rights to both ranges; the routine returns a fault where one is not mapped.
    let outcome = unsafe { btl_ofi_guard_copy(to, from, size) };
    outcome.checked().map(drop)
}

/// A word in a window, aligned to its size, that others change atomically. Every load acquires, every store releases,
/// and the others do both: they pair with the atomics of other threads and processes on the same word.
pub(crate) trait Word: Sized {
    /// # Safety
    /// `at` is aligned, and names memory that may be read as far as it is mapped.
    unsafe fn load(at: *mut Self) -> Result<Self, Fault>;
    /// # Safety
    /// `at` is aligned, and names memory that may be written as far as it is mapped.
    unsafe fn store(at: *mut Self, value: Self) -> Result<(), Fault>;
    /// Writes `value`; returns the old value.
    ///
    /// # Safety
    /// `at` is aligned, and names memory that may be written as far as it is mapped.
    unsafe fn swap(at: *mut Self, value: Self) -> Result<Self, Fault>;
    /// Adds `value` and wraps around; returns the old value.
    ///
    /// # Safety
    /// `at` is aligned, and names memory that may be written as far as it is mapped.
    unsafe fn add(at: *mut Self, value: Self) -> Result<Self, Fault>;
    /// Writes `value` if the word equals `compare`; returns the old value.
    ///
    /// # Safety
    /// `at` is aligned, and names memory that may be written as far as it is mapped.
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

        // The casts cut off the bits above the word, which are undefined.
        impl Word for $word {
            #[inline]
            unsafe fn load(at: *mut Self) -> Result<Self, Fault> {
                // SAFETY: the caller guarantees that `at` is aligned; the routine returns a fault if it is not
                // mapped.
                Ok(unsafe { $load(at) }.checked()? as $word)
            }
            #[inline]
            unsafe fn store(at: *mut Self, value: Self) -> Result<(), Fault> {
                // SAFETY: the caller guarantees that `at` is aligned; the routine returns a fault if it is not
                // mapped.
                unsafe { $store(at, u64::from(value)) }.checked().map(drop)
            }
            #[inline]
            unsafe fn swap(at: *mut Self, value: Self) -> Result<Self, Fault> {
                // SAFETY: the caller guarantees that `at` is aligned; the routine returns a fault if it is not
                // mapped.
                Ok(unsafe { $swap(at, u64::from(value)) }.checked()? as $word)
            }
            #[inline]
            unsafe fn add(at: *mut Self, value: Self) -> Result<Self, Fault> {
                // SAFETY: the caller guarantees that `at` is aligned; the routine returns a fault if it is not
                // mapped.
                Ok(unsafe { $add(at, u64::from(value)) }.checked()? as $word)
            }
            #[inline]
            unsafe fn cswap(at: *mut Self, compare: Self, value: Self) -> Result<Self, Fault> {
                let (compare, value) = (u64::from(compare), u64::from(value));
                // SAFETY: the caller guarantees that `at` is aligned; the routine returns a fault if it is not
                // mapped.
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
