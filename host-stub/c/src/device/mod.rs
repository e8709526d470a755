//! Devices: memory of devices that the host or the program adds, and the rings through which devices start
//! operations.

pub mod memory;
pub mod own;
pub mod ring;
