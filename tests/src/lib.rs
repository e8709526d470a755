//! The code that the tests of the built plugin share.
//!
//! - [`fixtures`] finds the files that the tests need: the plugin, built once, and the C programs.
//! - [`lab`]: the provider for tests, in a folder in which libfabric finds it.
//! - [`process`] runs a program for a bounded time.
//! - [`host`] is a host table whose answers a test scripts.
//! - [`repository`] lists the files of the repository.
//! - [`session`] is a plugin opened through its raw tables, up to a module.
//! - [`usage`] counts the resources of this process.
//!
//! The tests themselves are in `tests/`. This crate does not depend on libfabric or the transport's
//! crates, because the tests use the file that users get.

pub mod fixtures;
pub mod host;
pub mod lab;
pub mod process;
pub mod random;
pub mod repository;
pub mod session;
pub mod usage;
