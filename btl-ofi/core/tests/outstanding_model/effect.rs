//! The effect of an operation, for the models of outstanding counts.

use loom::cell::UnsafeCell;

/// One operation's effect, written by the completing thread and read after the flush. loom reports a
/// data race if the flush does not order the two.
pub(crate) struct Effect(pub(crate) UnsafeCell<u32>);

// SAFETY: loom checks each access.
unsafe impl Sync for Effect {}
