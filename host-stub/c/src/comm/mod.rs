//! Communicators and their hooks.

pub mod communicator;
pub mod hooks;
