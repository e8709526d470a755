//! Communicators, their topologies, those of two groups, and their hooks.

pub mod attributes;
pub mod communicator;
pub mod hooks;
pub mod inter;
pub mod topology;
