//! Work of the slow part of progress.

use std::sync::atomic::{AtomicU32, Ordering};

/// Whether progress has more to do than to poll contexts, and the number of operations that need this.
#[derive(Default)]
pub(crate) struct SlowWork {
    /// Number of reasons for slow work: staged and compound operations, channels with a lane, a mailbox, rails, and
    /// failures that were not handled yet. Each call of progress reads only this field.
    awake: AtomicU32,
    /// Number of staged and compound operations. These operations are in the outstanding count, but not at the provider.
    held: AtomicU32,
    /// Number of threads that hold a lock on operations (`core::quiet`). While the number is 0, other threads skip
    /// the check.
    pub(crate) quiet: AtomicU32,
}

impl SlowWork {
    /// Whether progress has slow work.
    #[inline]
    pub(crate) fn is_awake(&self) -> bool {
        // Relaxed: the next progress call sees a missed change, and mutexes order everything else.
        self.awake.load(Ordering::Relaxed) != 0
    }

    /// Slow work that is always awake if progress has `more` to do in each call, such as polling
    /// rails.
    pub(crate) fn driven_if(more: bool) -> SlowWork {
        let slow = SlowWork::default();
        if more {
            slow.wake();
        }
        slow
    }

    /// Adds a reason.
    pub(crate) fn wake(&self) {
        self.awake.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a reason.
    pub(crate) fn rest(&self) {
        self.awake.fetch_sub(1, Ordering::Relaxed);
    }

    /// Operations in the outstanding count that are not at the provider.
    pub(crate) fn held(&self) -> u32 {
        self.held.load(Ordering::Relaxed)
    }

    /// Adds an operation, which is also a reason for slow work.
    pub(crate) fn hold(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
        self.wake();
    }

    /// Removes an operation. Called before the outstanding count is lowered. In between, the provider seems to have one
    /// operation too many, but never one too few.
    pub(crate) fn release(&self) {
        self.held.fetch_sub(1, Ordering::Relaxed);
        self.rest();
    }
}
