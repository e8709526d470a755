//! The counters of the ranks, and the positions of their slots.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::Segment;

/// Bytes of a line of counters: two cache lines, because processors fetch pairs.
const LINE: usize = 128;
/// Where lines begin: behind the segment's own header.
const LINES: usize = 128;
/// Words of a line.
const READY: usize = 0;
const DONE: usize = 1;
/// The two slots for the smallest payloads lie in the line itself, behind the counters.
const INLINE_SLOTS: usize = 4;
/// Bytes that fit there: one cache line holds counters and payloads.
pub(super) const INLINE: usize = 16;
/// Bytes of a slot for larger ones.
pub(super) const SHORT: usize = 4 << 10;

/// What a rank tells the others of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Its slot is filled.
    Ready,
    /// It has read all that it wanted.
    Done,
}

/// Bytes of the segment.
pub(super) fn bytes(ranks: usize) -> usize {
    LINES + ranks * (LINE + 2 * SHORT)
}

/// Which slots a collective uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Inline,
    Short,
}

/// The mapped segment of a communicator.
pub(super) struct Lines {
    ranks: usize,
    segment: Segment,
}

impl Lines {
    pub(super) fn new(ranks: usize, segment: Segment) -> Lines {
        Lines { ranks, segment }
    }

    #[inline]
    fn counter(&self, rank: usize, mark: Mark) -> &AtomicU64 {
        let word = match mark {
            Mark::Ready => READY,
            Mark::Done => DONE,
        };
        self.segment.word((LINES + rank * LINE) / 8 + word)
    }

    /// Says that this rank has come so far.
    #[inline]
    pub(super) fn tell(&self, me: usize, mark: Mark, step: u64) {
        // Pairs with the Acquire load in `has`: what was written or read before is over.
        self.counter(me, mark).store(step, Ordering::Release);
    }

    /// Whether a rank has come so far.
    #[inline]
    pub(super) fn has(&self, rank: usize, mark: Mark, step: u64) -> bool {
        self.counter(rank, mark).load(Ordering::Acquire) >= step
    }

    /// A rank's slot for a step. The rank that fills it has seen all ranks finish the step two before;
    /// a rank that reads it has seen it ready.
    #[inline]
    pub(super) fn slot(&self, class: Class, rank: usize, step: u64) -> *mut u8 {
        let turn = (step % 2) as usize;
        match class {
            Class::Inline => {
                let line = LINES + rank * LINE;
                self.segment.at(line + INLINE_SLOTS * 8 + turn * INLINE)
            }
            Class::Short => {
                let slots = LINES + self.ranks * LINE;
                self.segment.at(slots + (2 * rank + turn) * SHORT)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_do_not_overlap() {
        const { assert!(INLINE_SLOTS * 8 + 2 * INLINE <= 64) };
        const { assert!(DONE < INLINE_SLOTS) };
        let lines = Lines::new(3, Segment::make(bytes(3)).unwrap());
        for (class, capacity) in [(Class::Inline, INLINE), (Class::Short, SHORT)] {
            let mut starts: Vec<usize> = (0..3)
                .flat_map(|rank| [0, 1].map(|turn| lines.slot(class, rank, turn) as usize))
                .collect();
            starts.sort_unstable();
            for pair in starts.windows(2) {
                assert!(pair[0] + capacity <= pair[1]);
            }
        }
        let end = lines.slot(Class::Short, 2, 1) as usize + SHORT;
        assert!(end <= lines.segment.at(usize::MAX) as usize);
    }
}
