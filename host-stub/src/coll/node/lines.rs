//! The counters of the ranks, and the positions of their slots.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::Segment;

/// Size of a line of counters in bytes: two cache lines, because processors fetch pairs of cache
/// lines.
const LINE: usize = 128;
/// Offset of the first line, behind the segment's own header.
const LINES: usize = 128;
/// Indices of the words of a line.
const READY: usize = 0;
const DONE: usize = 1;
/// Index of the first of two slots for the smallest payloads, which lie in the line itself behind
/// the counters.
const INLINE_SLOTS: usize = 4;
/// Size of such a slot in bytes: counters and payloads together fit in one cache line.
pub(super) const INLINE: usize = 16;
/// Size in bytes of a slot for larger payloads.
pub(super) const SHORT: usize = 4 << 10;

/// A rank's progress in a step, as the other ranks see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// The rank has filled its slot.
    Ready,
    /// The rank has finished its reads.
    Done,
}

/// Size of the segment in bytes.
pub(super) fn bytes(ranks: usize) -> usize {
    LINES + ranks * (LINE + 2 * SHORT)
}

/// The slots that a collective uses.
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

    /// Records that this rank has made this progress in a step.
    #[inline]
    pub(super) fn tell(&self, me: usize, mark: Mark, step: u64) {
        // Release pairs with the Acquire load in `has`: this rank's earlier writes and reads are
        // over.
        self.counter(me, mark).store(step, Ordering::Release);
    }

    /// Whether a rank has made this progress in a step.
    #[inline]
    pub(super) fn has(&self, rank: usize, mark: Mark, step: u64) -> bool {
        self.counter(rank, mark).load(Ordering::Acquire) >= step
    }

    /// A rank's slot for a step. The rank that fills the slot has seen all ranks finish the step
    /// before the previous one. A rank that reads the slot has seen that it is ready.
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
