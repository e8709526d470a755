//! Atomics and thread hints under one name, so that loom's can replace them. `tests/outstanding_model.rs`,
//! `tests/pairs_model.rs` and `tests/lane_model.rs` compile `peer/outstanding.rs`, `base/lock.rs` and the records of `op`
//! again with loom's types; `tests/ring_model.rs` does the same with the ring and the pool of `sm`, and
//! `tests/delivering_model.rs` with `core/delivering.rs`.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use std::thread::yield_now;

/// A number that distinguishes running threads, never 0. In a model the number is 0, because the model's threads share one
/// thread of the system.
#[cfg(debug_assertions)]
pub(crate) fn thread_token() -> usize {
    thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| std::ptr::from_ref(place).addr())
}

/// Runs a test once. The loom build replaces this function, and runs the test with every interleaving.
#[cfg(test)]
pub(crate) fn model(test: impl Fn() + Send + Sync + 'static) {
    test();
}
