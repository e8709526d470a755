//! Whether callbacks of a context run.

use crate::base::sync::{AtomicBool, Ordering};

/// A flag that is set while callbacks of a context run, so that operations issued by a callback do not deliver callbacks
/// recursively. Two threads may mistake each other's callbacks for nested ones. So the flag only decides whether a post
/// polls once more (`must_not_poll`), and no loop depends on it. Only the caller that set the flag clears it, so it is
/// clear when no callbacks run.
#[derive(Default)]
pub(crate) struct Delivering(AtomicBool);

impl Delivering {
    /// Called before callbacks run. Returns whether other callbacks were already running.
    #[inline(always)]
    pub(crate) fn begin(&self) -> bool {
        let nested = self.is_set();
        if !nested {
            self.0.store(true, Ordering::Relaxed);
        }
        nested
    }

    /// Called after callbacks ran, with the result of [`begin`](Self::begin).
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
