//! The segment that the ranks of a node share.

use std::sync::atomic::AtomicU64;

use super::plan::Plan;
use crate::base::Segment;
use crate::win::control::Word;

/// A window's segment, and this rank's own state for it.
pub(in crate::win) struct Shared {
    pub(in crate::win) segment: Segment,
    pub(in crate::win) plan: Plan,
    /// Number of flushes: some of them make progress.
    pub(super) flushes: AtomicU64,
}

impl Shared {
    pub(in crate::win) fn new(segment: Segment, plan: Plan) -> Shared {
        Shared {
            segment,
            plan,
            flushes: AtomicU64::new(0),
        }
    }

    /// A word of a rank's control block.
    #[inline]
    pub(in crate::win) fn word(&self, rank: usize, word: Word) -> &AtomicU64 {
        self.segment.word(self.plan.word(rank, word))
    }
}
