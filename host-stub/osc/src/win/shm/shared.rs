//! The segment that the ranks of a node share.

use std::sync::atomic::{AtomicU64, Ordering};

use super::plan::Plan;
use crate::base::Segment;
use crate::win::control::Word;

/// A window's segment, and this rank's own state for it.
pub(in crate::win) struct Shared {
    pub(in crate::win) segment: Segment,
    pub(in crate::win) plan: Plan,
    /// Barriers of the earlier windows in this segment.
    pub(in crate::win) barriers: u64,
    /// Number of flushes: some of them make progress.
    pub(super) flushes: AtomicU64,
}

impl Shared {
    pub(in crate::win) fn new(segment: Segment, plan: Plan) -> Shared {
        Shared {
            segment,
            plan,
            barriers: 0,
            flushes: AtomicU64::new(0),
        }
    }

    /// Clears the memory and the control block of a rank, which no rank uses any more, for the next window. The word of the
    /// barrier stays.
    pub(super) fn clear(&self, rank: usize) {
        let barrier = self.plan.control.barrier(0);
        for word in (0..self.plan.control.words()).map(Word) {
            if word != barrier {
                self.word(rank, word).store(0, Ordering::Relaxed);
            }
        }
        if let Some(part) = self.plan.parts.get(rank) {
            // SAFETY: the window was freed: all ranks have ended their accesses to this part.
            unsafe { self.segment.clear(part.offset, part.len) };
        }
    }

    /// A word of a rank's control block.
    #[inline]
    pub(in crate::win) fn word(&self, rank: usize, word: Word) -> &AtomicU64 {
        self.segment.word(self.plan.word(rank, word))
    }
}
