//! Communicators, their topologies, and their hooks.

pub mod attributes;
pub mod communicator;
pub mod hooks;
pub mod topology;
