//! Work of the slow part of progress.

use std::sync::atomic::{AtomicU32, Ordering};

/// Whether progress has more to do than to poll contexts, and operations that wait for that.
#[derive(Default)]
pub(crate) struct SlowWork {
    /// Number of reasons for the slow part: staged and compound operations, channels with a lane, a mailbox, rails, failures to act
    /// on. Progress reads only this field each time.
    awake: AtomicU32,
    /// Staged and compound operations: they are in the outstanding count, and not at the provider.
    held: AtomicU32,
    /// Threads that hold a lock of operations (`core::quiet`), so that others need not ask.
    pub(crate) quiet: AtomicU32,
}

impl SlowWork {
    /// Whether progress has slow work.
    #[inline]
    pub(crate) fn is_awake(&self) -> bool {
        // Relaxed: a missed change is seen by the next progress call, and mutexes order the rest.
        self.awake.load(Ordering::Relaxed) != 0
    }

    /// Awake for good if progress has more to do each time, such as rails to poll.
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

    /// Adds an operation, which is also a reason.
    pub(crate) fn hold(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
        self.wake();
    }

    /// Removes an operation. Called before the outstanding count is lowered: in between the provider appears to have one operation
    /// too many, never one too few.
    pub(crate) fn release(&self) {
        self.held.fetch_sub(1, Ordering::Relaxed);
        self.rest();
    }
}
