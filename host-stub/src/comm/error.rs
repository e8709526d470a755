//! The errors of calls on communicators.

pub use crate::schedule::{CommError, CommResult};

/// What a layer's hook can fail with.
pub type HookError = Box<dyn std::error::Error + Send + Sync>;
