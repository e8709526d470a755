//! MPI's one-sided communication over a transport of the plugin ABI ([`plugin_api`]).
//!
//! - [`win`]: windows and their calls.
//! - [`door`]: the services that the engine's user provides: ranks, waiting, devices.
//! - [`transport`]: the client of the transport's table of functions.
//! - [`base`]: operations, memory, the identity of a process.

pub mod base;
pub mod door;
pub mod transport;
pub mod win;
