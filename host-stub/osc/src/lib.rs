//! MPI's one-sided communication over a transport of the plugin ABI ([`plugin_api`]).
//!
//! - [`base`]: operations, memory, the identity of a process.
//! - [`transport`]: the client of the transport's table of functions.

pub mod base;
pub mod transport;
