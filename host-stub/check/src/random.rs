//! Reproducible random numbers, which every rank can compute for every other rank.

/// A stream of numbers (SplitMix64: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
/// Generators", 2014).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// The stream of a seed, a test, and a purpose such as a rank.
    pub(super) fn new(seed: u64, name: &str, salt: u64) -> Random {
        // FNV-1a, so that different names give different streams.
        let mut state = 0xcbf2_9ce4_8422_2325_u64 ^ seed;
        for byte in name.bytes().chain(salt.to_le_bytes()) {
            state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Random(state)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A separate stream for a purpose; this stream stays unchanged.
    pub(super) fn fork(&self, salt: u64) -> Random {
        Random(self.0 ^ salt.wrapping_add(1).wrapping_mul(0xd6e8_feb8_6659_fd93))
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        match bound {
            0 => 0,
            bound => (self.next() % bound as u64) as usize,
        }
    }

    /// A number from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1).max(0) as usize) as i64
    }

    /// Returns one of the choices; there is at least one.
    pub(super) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    pub(super) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.below(index + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let take = |seed, name, salt| {
            let mut random = Random::new(seed, name, salt);
            [random.next(), random.next()]
        };
        assert_eq!(take(1, "a", 2), take(1, "a", 2));
        assert_ne!(take(1, "a", 2), take(2, "a", 2));
        assert_ne!(take(1, "a", 2), take(1, "b", 2));
        assert_ne!(take(1, "a", 2), take(1, "a", 3));
    }

    #[test]
    fn numbers_keep_their_bounds() {
        let mut random = Random::new(7, "bounds", 0);
        for _ in 0..1000 {
            assert!(random.below(3) < 3);
            assert!((-2..=2).contains(&random.between(-2, 2)));
        }
        assert_eq!(random.below(0), 0);
        assert_eq!(random.bytes(13).len(), 13);
    }
}
