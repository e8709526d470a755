//! Windows whose memory is attached later, and what origins know of it.

pub(super) mod attach;
pub(super) mod completing;
pub(super) mod keeping;
pub(super) mod region_cache;
pub(super) mod region_reads;
pub(super) mod regions;
