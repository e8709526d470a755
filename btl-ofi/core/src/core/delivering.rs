//! Whether callbacks of a context run.

use crate::base::sync::{AtomicBool, Ordering};

/// Set while callbacks of a context run, so that operations issued by a callback do not deliver recursively. Two threads may
/// mistake each other's callbacks for nested ones. So it decides only whether a post polls once more (`must_not_poll`), and
/// no loop ends by it. Only the caller that set it clears it, so it is clear when no callbacks run.
#[derive(Default)]
pub(crate) struct Delivering(AtomicBool);

impl Delivering {
    /// Before callbacks run. Returns whether others were running.
    #[inline(always)]
    pub(crate) fn begin(&self) -> bool {
        let nested = self.is_set();
        if !nested {
            self.0.store(true, Ordering::Relaxed);
        }
        nested
    }

    /// After callbacks ran, with what [`begin`](Self::begin) returned.
    #[inline(always)]
    pub(crate) fn end(&self, nested: bool) {
        if !nested {
            self.0.store(false, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
