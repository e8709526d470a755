//! Dynamic windows: memory attached after creation, and the copies of its table that origins keep.

pub(super) mod attach;
pub(super) mod attempts;
pub(super) mod completing;
pub(super) mod keeping;
pub(super) mod refused;
pub(super) mod region_cache;
pub(super) mod region_reads;
pub(super) mod regions;
mod repeats;
