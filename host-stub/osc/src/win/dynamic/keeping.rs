//! A call may keep a target's accumulate lock, or the turn to read a target's regions, across its waits. The call gives the
//! lock and the turn back before it returns.
//!
//! Other work on the same thread must not want the same lock or turn during such a wait: it would wait for the call below it
//! on the stack. So the call stays on its thread, and the thread runs no other task until the call gives the lock or turn
//! back. The call's waits last as long as an operation of the transport, or as another thread or rank keeps the same lock or
//! turn. The progress that the call makes begins no operation.

use std::cell::Cell;

use crate::door::{Waiter, alone};

thread_local! {
    static KEEPS: Cell<bool> = const { Cell::new(false) };
}

/// Whether a window's call on this thread keeps a lock or a turn. While the call keeps one of them, its progress begins
/// no operation.
pub fn is_kept() -> bool {
    KEEPS.get()
}

/// Runs the part of a call that takes a lock or a turn, keeps it and gives it back.
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
