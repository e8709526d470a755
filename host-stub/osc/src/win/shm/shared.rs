//! The segment that the ranks of a node share.

use std::sync::atomic::AtomicU64;

use super::plan::Plan;
use crate::base::Segment;

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
}
