//! Atomics by one name, so that the model checker can stand in for them: `tests/pending_model.rs` builds
//! `busy`, `pending` and `slots` again over loom's.

pub(super) use std::sync::Mutex;
pub(super) use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering, fence,
};
