//! Buffers on devices: where they are, and what goes through host memory.

pub(super) mod device_copy;
pub(super) mod located;
pub(super) mod packed;
pub(super) mod regular;
