//! Operations: the request of one, its record until it completes, and the arithmetic of atomics.

pub(crate) mod element;
pub(crate) mod record;
pub(crate) mod request;
