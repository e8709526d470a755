//! A small random generator for tests whose seed is printed.

/// SplitMix64: every seed gives a full-period sequence.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Uses the seed `TEST_SEED` if it is set, else the clock; prints the seed, which the test
    /// harness shows when the test fails.
    pub fn new() -> Self {
        let seed = std::env::var("TEST_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok())
            .unwrap_or_else(|| {
                std::time::SystemTime::now()
                    .duration_since(std::time::UNIX_EPOCH)
                    .map_or(1, |since| since.as_nanos() as u64)
            });
        println!("repeat with TEST_SEED={seed}");
        Random(seed)
    }

    /// The sequence of this seed.
    pub fn from_seed(seed: u64) -> Self {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.word() % end as u64) as usize
    }

    /// Random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.word() as u8).collect()
    }
}

impl Default for Random {
    fn default() -> Self {
        Self::new()
    }
}
