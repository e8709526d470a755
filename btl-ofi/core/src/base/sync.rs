//! Atomics by one name, so that the model checker can stand in for them: `tests/tally_model.rs` and
//! `tests/lane_model.rs` build `count`, `lock` and `record` again over loom's, `tests/ring_model.rs`
//! builds `ring` and `pool`.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use std::thread::yield_now;

/// Runs a test once; under the model checker, through every interleaving.
#[cfg(test)]
pub(crate) fn model(test: impl Fn() + Send + Sync + 'static) {
    test();
}
