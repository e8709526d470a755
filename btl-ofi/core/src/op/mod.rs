//! Operations: the operation record of an operation until it completes, and the arithmetic of atomics.

pub(crate) mod element;
pub(crate) mod record;
