//! Hints to the compiler. No function here changes what a program computes.

/// Keeps two branches apart. The compiler otherwise merges their conditions: flags that are set and combined take
/// more instructions than branches that are never taken.
#[inline(always)]
pub fn branch() {
    #[cfg(not(miri))]
    // SAFETY: the assembly is empty, so it changes no state.
    unsafe {
        std::arch::asm!("", options(nomem, nostack, preserves_flags));
    }
}
