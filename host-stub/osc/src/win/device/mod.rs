//! Buffers on devices: their locations, and the calls that go through host memory.

pub(super) mod device_copy;
pub(super) mod located;
pub(super) mod neighbours;
pub(super) mod opened;
pub(super) mod packed;
pub(super) mod regular;
