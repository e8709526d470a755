//! What a call keeps across its waits and gives back before it returns: a target's accumulate lock, or the turn to read a
//! target's regions.
//!
//! What runs on the same thread during such a wait must not want it too: it would wait for the call that lies below it on
//! the stack. So the call stays on its thread, which runs no other task meanwhile; its waits take as long as an operation of
//! the transport, or as another thread or rank keeps the same thing. And the progress that it makes begins no operation.

use std::cell::Cell;

use crate::door::{Waiter, alone};

thread_local! {
    static KEEPS: Cell<bool> = const { Cell::new(false) };
}

/// Whether a window's call of this thread keeps something: the progress that it makes begins no operation then.
pub fn is_kept() -> bool {
    KEEPS.get()
}

/// Runs the part of a call that takes something, keeps it and gives it back.
pub(in crate::win) fn keeping<R>(waiter: &dyn Waiter, part: impl FnOnce() -> R) -> R {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            KEEPS.set(self.0);
        }
    }
    let _before = Before(KEEPS.replace(true));
    alone(waiter, part)
}
