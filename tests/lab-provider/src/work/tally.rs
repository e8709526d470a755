//! What a counter counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// Operations that are done, and those that failed.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) done: AtomicU64,
    pub(crate) failed: AtomicU64,
}

impl Tally {
    pub(crate) fn count(&self, done: &Result<(), i32>) {
        let counter = if done.is_ok() {
            &self.done
        } else {
            &self.failed
        };
        counter.fetch_add(1, Ordering::Release);
    }
}
