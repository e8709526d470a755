//! Devices: memory of those that the host knows and of the program's own, and the rings through which they start
//! operations.

pub mod memory;
pub mod own;
pub mod ring;
