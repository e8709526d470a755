//! Operations: the record of one until it completes, and the arithmetic of atomics.

pub(crate) mod element;
pub(crate) mod record;
