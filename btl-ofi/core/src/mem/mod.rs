//! Registered memory: handles and the rights in them, registered regions of host and device memory, and copies
//! between host and device memory.

pub(crate) mod blocks;
pub(crate) mod copy;
pub(crate) mod copy_error;
pub(crate) mod cuda;
pub(crate) mod device_regions;
pub(crate) mod handle;
pub(crate) mod later;
pub(crate) mod local;
pub(crate) mod regions;
pub(crate) mod rights;
pub(crate) mod shared;
