//! The code that the tests of the built plugin share.
//!
//! - [`fixtures`] finds what the tests run on: the plugin, built once, and the C programs.
//! - [`lab`] is the provider for tests, where libfabric finds it.
//! - [`process`] runs a program for a bounded time.
//! - [`host`] is a host table whose answers a test scripts.
//! - [`session`] is a plugin opened through its raw tables, up to a module.
//! - [`usage`] counts what this process holds.
//!
//! The tests proper are in `tests/`. Nothing here knows libfabric or the transport's crates: what
//! is tested is the file that users get.

pub mod fixtures;
pub mod host;
pub mod lab;
pub mod process;
pub mod random;
pub mod session;
pub mod usage;
