//! Whether a thread runs a function for which others may wait: its waits then make progress and never sleep.

use std::cell::Cell;

thread_local! {
    /// Whether this thread runs a function that was passed to [`watched`].
    static WATCHED: Cell<bool> = const { Cell::new(false) };
}

pub(super) fn is_watched() -> bool {
    WATCHED.get()
}

/// Sets whether this thread runs a function that was passed to [`watched`]; returns the value before.
pub(super) fn set_watched(watched: bool) -> bool {
    WATCHED.replace(watched)
}

/// Runs a function that must not wait for other threads, because they may wait for this thread. Such a function is a
/// layer's check whether a wait is over, which should not wait at all, or a call that holds a resource of other
/// threads.
pub(crate) fn watched<R>(look: impl FnOnce() -> R) -> R {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            WATCHED.set(self.0);
        }
    }
    let _before = Before(WATCHED.replace(true));
    look()
}
