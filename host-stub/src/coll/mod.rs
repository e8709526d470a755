//! Collectives of communicators.

pub(crate) mod algorithms;
