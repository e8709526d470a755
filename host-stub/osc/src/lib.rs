//! MPI's one-sided communication over a transport of the plugin ABI ([`plugin_api`]).
//!
//! - [`win`] is windows.
//! - [`door`] is what the engine is given by who uses it: ranks, how to wait, devices.
//! - [`transport`] is the client of the transport's table of functions.
//! - [`base`] is operations, memory, the identity of a process.

pub mod base;
pub mod door;
pub mod transport;
pub mod win;
