//! Which lock of osc/rdma this process tried to take (`entries::locks`).

use std::sync::{Mutex, PoisonError};

/// A lock: the endpoint of its rank, and its address there.
pub(crate) type Word = (usize, u64);

/// The lock that this process last tried to take and has not released since.
#[derive(Default)]
pub(crate) struct LastLock(Mutex<Option<Word>>);

impl LastLock {
    /// Notes an attempt to take a lock.
    pub(crate) fn set(&self, word: Word) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(word);
    }

    /// Notes a release. Returns whether the word is that lock.
    pub(crate) fn release(&self, word: Word) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.take_if(|last| *last == word).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_lock_that_was_tried_last_is_released() {
        let last = LastLock::default();
        let (a, b) = ((1, 8), (1, 16));
        assert!(!last.release(a), "nobody tried it");
        last.set(a);
        assert!(!last.release(b), "another word");
        assert!(last.release(a));
        assert!(!last.release(a), "it was released");
        last.set(a);
        last.set(b);
        assert!(!last.release(a), "not the last one");
        assert!(last.release(b));
    }
}
