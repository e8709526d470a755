//! The segment of a freed window, for the next window of the same ranks.
//!
//! To make, open and free a segment takes two exchanges, system calls and page faults. So a process keeps one segment of a
//! freed window, and offers it in its intent for the next one. If all ranks offer the same segment, and the new window has
//! the same layout, the segment serves this window.
//!
//! Each rank clears its memory and its control block when it frees a window, after the barrier behind which no rank uses
//! them. The exchange of the next creation makes this visible. Only the word of the barrier goes on counting, because slower
//! ranks still read it.

use std::sync::{Mutex, PoisonError};

use super::plan::Plan;
use super::shared::Shared;

/// Bytes of the longest segment that is kept.
const LONGEST: usize = 1 << 20;

/// The place for one segment.
#[derive(Default)]
pub(crate) struct Spare(Mutex<Option<Shared>>);

impl Spare {
    /// Keeps the segment of a window that `rank` has freed, and that has had `barriers` barriers.
    pub(in crate::win) fn keep(&self, mut shared: Shared, rank: usize, barriers: u64) {
        if shared.segment.bytes() > LONGEST || shared.segment.is_huge() {
            return;
        }
        shared.clear(rank);
        shared.barriers = barriers;
        self.put(shared);
    }

    /// The kept segment. It is offered for one window, so that two threads do not use it for two.
    pub(in crate::win) fn take(&self) -> Option<Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, shared: Shared) {
        let earlier = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replace(shared);
        drop(earlier);
    }
}

/// Whether a segment that all ranks offered serves a window with parts of these lengths.
pub(in crate::win) fn serves(offered: &Shared, lengths: &[usize], contiguous: bool) -> bool {
    Plan::new(lengths, contiguous, offered.segment.page()).as_ref() == Some(&offered.plan)
}
