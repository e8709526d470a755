//! Atomics by one name, so that the model checker can stand in for them: `tests/tally_model.rs` builds
//! `tally` again over loom's.

pub(crate) use std::sync::atomic::{AtomicU32, Ordering};

/// Runs a test once; under the model checker, through every interleaving.
#[cfg(test)]
pub(crate) fn model(test: impl Fn() + Send + Sync + 'static) {
    test();
}
