//! Names for atomics, so that the model checker can replace them: `tests/pending_model.rs` builds
//! `busy`, `pending` and `slots` again with loom's atomics.

pub(super) use std::sync::Mutex;
pub(super) use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering, fence};
