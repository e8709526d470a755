//! Random numbers that every run repeats.

/// Random numbers that are the same in every run with the same seed (a linear congruential
/// generator with the constants of Knuth's MMIX).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn word(&mut self) -> u64 {
        let mut next = || {
            self.0 = self
                .0
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            self.0 >> 32
        };
        next() << 32 | next()
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.word() >> 8) as usize % n
    }
}
