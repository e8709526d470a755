//! Hints to the compiler.

/// Keeps the compiler from making one condition of two that are branches of their own: several flags
/// set and joined are more instructions than as many branches never taken.
#[inline(always)]
pub fn branch() {
    #[cfg(not(miri))]
    // SAFETY: no instruction at all.
    unsafe {
        std::arch::asm!("", options(nomem, nostack, preserves_flags));
    }
}
