//! Memory as peers see it: handles and what they allow.

pub(crate) mod handle;
pub(crate) mod rights;
