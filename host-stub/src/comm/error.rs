//! The errors of calls on communicators.

pub use crate::schedule::{CommError, CommResult};

/// The error type of a layer's hook.
pub type HookError = Box<dyn std::error::Error + Send + Sync>;
