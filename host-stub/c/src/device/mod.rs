//! Device memory: of the devices that the host knows, and of the program's own.

pub mod memory;
pub mod own;
