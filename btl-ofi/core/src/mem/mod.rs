//! Memory as peers see it: handles and what they allow.

pub(crate) mod copy;
pub(crate) mod cuda;
pub(crate) mod device_regions;
pub(crate) mod handle;
pub(crate) mod regions;
pub(crate) mod rights;
