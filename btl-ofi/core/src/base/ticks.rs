//! A clock that is read in a few nanoseconds, for decisions on the data path. The clock's unit is the processor's: only
//! differences and ratios mean something.

/// A duration that is long for a poll: about ten microseconds.
pub(crate) const LONG: u64 = if cfg!(target_arch = "x86_64") {
    1 << 15
} else {
    10_000
};

/// The current time.
#[inline(always)]
pub(crate) fn now() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has this instruction; it reads a counter.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        use std::sync::OnceLock;
        use std::time::Instant;
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes() {
        let before = now();
        // The test does not end if the clock stands still.
        while now().wrapping_sub(before) <= LONG {
            std::hint::spin_loop();
        }
        assert!(now() > before);
    }
}
