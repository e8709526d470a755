//! Communicators and their hooks.

pub mod attributes;
pub mod communicator;
pub mod hooks;
