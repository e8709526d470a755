//! Measured choice between the two paths of a large get: through the ring, by both sides' copies, or by the kernel
//! alone.
//!
//! The ring moves the data between the caches of the two processors twice. On processors that share a cache the ring
//! takes less than half of the kernel's time, on distant ones up to twice as much. A process cannot see the distance,
//! and the scheduler changes it. So the requester times both ways alternately from time to time, and uses the faster
//! one.

use std::time::Duration;

/// Number of pairs of gets in a trial.
const PAIRS: u8 = 8;
/// Limit of a time, as a multiple of the other time of its pair. A larger time means that an interruption occurred.
const OUTLIER: u64 = 4;
/// Number of gets between two trials: after a change of the choice, and at most. The number doubles while the choice
/// stays the same.
const INTERVALS: (u32, u32) = (64, 4096);

/// A path for a large get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Shared,
    Kernel,
}

/// Measurements of the two paths, for gets of one size class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Autotune {
    chosen: Way,
    /// Number of gets until the next trial, and the length of this interval.
    left: u32,
    interval: u32,
    /// Times of the current pair by path, in nanoseconds per 64 KiB.
    pair: [Option<u64>; 2],
    /// Number of complete pairs in this trial, and their total times by path.
    pairs: u8,
    sums: [u64; 2],
}

impl Default for Autotune {
    fn default() -> Self {
        Autotune {
            chosen: Way::Shared,
            left: 0,
            interval: 0,
            pair: [None; 2],
            pairs: 0,
            sums: [0; 2],
        }
    }
}

impl Autotune {
    /// The path for the next get, and whether the get must be timed.
    pub(super) fn next(&mut self) -> (Way, bool) {
        if self.left > 0 {
            self.left -= 1;
            return (self.chosen, false);
        }
        let way = match self.pair[Way::Shared as usize] {
            None => Way::Shared,
            Some(_) => Way::Kernel,
        };
        (way, true)
    }

    /// Records the time of a timed get that began on this path.
    pub(super) fn record_time(&mut self, way: Way, size: usize, time: Duration) {
        let each = time.as_nanos() as u64 * (64 << 10) / size.max(1) as u64;
        self.pair[way as usize] = Some(each);
        let [Some(shared), Some(kernel)] = self.pair else {
            return;
        };
        self.pair = [None; 2];
        self.pairs += 1;
        let most = OUTLIER * shared.min(kernel);
        let [of_shared, of_kernel] = &mut self.sums;
        *of_shared += shared.min(most);
        *of_kernel += kernel.min(most);
        if self.pairs == PAIRS {
            self.settle();
        }
    }

    fn settle(&mut self) {
        let other = match self.chosen {
            Way::Shared => Way::Kernel,
            Way::Kernel => Way::Shared,
        };
        let of = |way: Way| self.sums[way as usize];
        let (least, most) = INTERVALS;
        // The other path must be faster by a sixteenth, so that noise does not change the choice.
        self.interval = if of(other) < of(self.chosen) / 16 * 15 {
            self.chosen = other;
            least
        } else {
            self.interval.saturating_mul(2).clamp(least, most)
        };
        self.left = self.interval;
        (self.pairs, self.sums) = (0, [0; 2]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 1 << 20;
    const TRIAL: usize = 2 * PAIRS as usize;

    /// Makes `count` gets that take these times in microseconds. Returns the number of gets by
    /// path.
    fn gets(autotune: &mut Autotune, times: [u64; 2], count: usize) -> [usize; 2] {
        let mut made = [0; 2];
        for _ in 0..count {
            let (way, timed) = autotune.next();
            made[way as usize] += 1;
            if timed {
                let time = Duration::from_micros(times[way as usize]);
                autotune.record_time(way, SIZE, time);
            }
        }
        made
    }

    #[test]
    fn the_faster_way_is_chosen_and_trials_get_rarer() {
        let mut autotune = Autotune::default();
        assert_eq!(gets(&mut autotune, [10, 30], TRIAL), [8, 8]);
        assert_eq!(gets(&mut autotune, [10, 30], 64), [64, 0]);
        assert_eq!(gets(&mut autotune, [10, 30], TRIAL + 128), [8 + 128, 8]);
        let [_, kernel] = gets(&mut autotune, [10, 30], 100_000);
        assert!(kernel < 300, "{kernel} of 100,000 gets took the slower way");
    }

    #[test]
    fn the_choice_follows_a_change_of_times() {
        let mut autotune = Autotune::default();
        gets(&mut autotune, [10, 30], 100_000);
        gets(&mut autotune, [34, 30], 5_000);
        assert_eq!(autotune.chosen, Way::Kernel);
        gets(&mut autotune, [10, 30], 5_000);
        assert_eq!(autotune.chosen, Way::Shared);
    }

    #[test]
    fn a_small_difference_does_not_change_the_choice() {
        let mut autotune = Autotune::default();
        gets(&mut autotune, [100, 98], 10_000);
        assert_eq!(autotune.chosen, Way::Shared);
        gets(&mut autotune, [100, 80], 10_000);
        gets(&mut autotune, [98, 100], 10_000);
        assert_eq!(autotune.chosen, Way::Kernel);
    }

    #[test]
    fn an_interrupted_get_does_not_change_the_choice() {
        let mut autotune = Autotune::default();
        for at in 0..TRIAL {
            let (way, timed) = autotune.next();
            assert!(timed);
            let quick = Duration::from_micros(10 + 20 * way as u64);
            autotune.record_time(way, SIZE, if at == 2 { quick * 1000 } else { quick });
        }
        assert_eq!(autotune.next(), (Way::Shared, false));
    }
}
