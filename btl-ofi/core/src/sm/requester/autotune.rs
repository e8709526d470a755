//! Who makes large gets from a peer: both sides, or the kernel alone.
//!
//! What is copied twice crosses between the caches of two processors twice. Where they share a cache both sides
//! take less than half of the kernel's time, and where they are far apart up to twice as much. A process cannot see
//! which it is, and it changes when the system moves one of them: so both ways are timed now and then, in turns,
//! and the quicker one is taken.

use std::time::Duration;

/// Pairs of gets of a trial.
const PAIRS: u8 = 8;
/// How many times what the other of its pair took one counts at most: it was interrupted then.
const MOST: u64 = 4;
/// Gets between two trials, after the choice changed, and at most when it stands again and again.
const BETWEEN: (u32, u32) = (64, 4096);

/// A way for a large get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Shared,
    Kernel,
}

/// What is known of the two ways, for gets of about one size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Autotune {
    taken: Way,
    /// Gets until the next trial, and how many it was the last time.
    left: u32,
    between: u32,
    /// What 64 KiB took each way in this pair of gets, in nanoseconds.
    pair: [Option<u64>; 2],
    /// Pairs so far, and what they took together.
    pairs: u8,
    sums: [u64; 2],
}

impl Default for Autotune {
    fn default() -> Self {
        Autotune {
            taken: Way::Shared,
            left: 0,
            between: 0,
            pair: [None; 2],
            pairs: 0,
            sums: [0; 2],
        }
    }
}

impl Autotune {
    /// The way for the next get, and whether it is to be timed.
    pub(super) fn next(&mut self) -> (Way, bool) {
        if self.left > 0 {
            self.left -= 1;
            return (self.taken, false);
        }
        let way = match self.pair[Way::Shared as usize] {
            None => Way::Shared,
            Some(_) => Way::Kernel,
        };
        (way, true)
    }

    /// A timed get that was begun this way took so long.
    pub(super) fn took(&mut self, way: Way, size: usize, time: Duration) {
        let each = time.as_nanos() as u64 * (64 << 10) / size.max(1) as u64;
        self.pair[way as usize] = Some(each);
        let [Some(shared), Some(kernel)] = self.pair else {
            return;
        };
        self.pair = [None; 2];
        self.pairs += 1;
        let most = MOST * shared.min(kernel);
        let [of_shared, of_kernel] = &mut self.sums;
        *of_shared += shared.min(most);
        *of_kernel += kernel.min(most);
        if self.pairs == PAIRS {
            self.settle();
        }
    }

    fn settle(&mut self) {
        let other = match self.taken {
            Way::Shared => Way::Kernel,
            Way::Kernel => Way::Shared,
        };
        let of = |way: Way| self.sums[way as usize];
        let (least, most) = BETWEEN;
        // By a sixteenth, or it would be for nothing.
        self.between = if of(other) < of(self.taken) / 16 * 15 {
            self.taken = other;
            least
        } else {
            self.between.saturating_mul(2).clamp(least, most)
        };
        self.left = self.between;
        (self.pairs, self.sums) = (0, [0; 2]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 1 << 20;
    const TRIAL: usize = 2 * PAIRS as usize;

    /// Makes gets that take these microseconds each; gives how many were made each way.
    fn gets(autotune: &mut Autotune, times: [u64; 2], count: usize) -> [usize; 2] {
        let mut made = [0; 2];
        for _ in 0..count {
            let (way, timed) = autotune.next();
            made[way as usize] += 1;
            if timed {
                let time = Duration::from_micros(times[way as usize]);
                autotune.took(way, SIZE, time);
            }
        }
        made
    }

    #[test]
    fn the_quicker_way_is_taken_and_the_other_looked_at_ever_less() {
        let mut autotune = Autotune::default();
        assert_eq!(gets(&mut autotune, [10, 30], TRIAL), [8, 8]);
        assert_eq!(gets(&mut autotune, [10, 30], 64), [64, 0]);
        assert_eq!(gets(&mut autotune, [10, 30], TRIAL + 128), [8 + 128, 8]);
        let [_, kernel] = gets(&mut autotune, [10, 30], 100_000);
        assert!(kernel < 300, "{kernel} of 100,000 gets took the slower way");
    }

    #[test]
    fn the_choice_follows_when_it_changes() {
        let mut autotune = Autotune::default();
        gets(&mut autotune, [10, 30], 100_000);
        gets(&mut autotune, [34, 30], 5_000);
        assert_eq!(autotune.taken, Way::Kernel);
        gets(&mut autotune, [10, 30], 5_000);
        assert_eq!(autotune.taken, Way::Shared);
    }

    #[test]
    fn little_between_them_changes_nothing() {
        let mut autotune = Autotune::default();
        gets(&mut autotune, [100, 98], 10_000);
        assert_eq!(autotune.taken, Way::Shared);
        gets(&mut autotune, [100, 80], 10_000);
        gets(&mut autotune, [98, 100], 10_000);
        assert_eq!(autotune.taken, Way::Kernel);
    }

    #[test]
    fn one_that_was_interrupted_does_not_turn_it() {
        let mut autotune = Autotune::default();
        for at in 0..TRIAL {
            let (way, timed) = autotune.next();
            assert!(timed);
            let quick = Duration::from_micros(10 + 20 * way as u64);
            autotune.took(way, SIZE, if at == 2 { quick * 1000 } else { quick });
        }
        assert_eq!(autotune.next(), (Way::Shared, false));
    }
}
