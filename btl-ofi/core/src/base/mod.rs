//! The lowest layer: errors, log lines, parameters, locks, the gate of system calls, network interfaces, and accesses to windows.
//! Modules here know no peers, no operations and no libfabric objects.

pub(crate) mod access;
pub(crate) mod capabilities;
pub(crate) mod cma;
pub(crate) mod descriptors;
pub(crate) mod environment;
pub(crate) mod error;
pub(crate) mod fork;
pub(crate) mod guarded;
pub mod hints;
pub(crate) mod interfaces;
pub(crate) mod locality;
pub(crate) mod lock;
#[cfg(test)]
mod lock_tests;
pub mod log;
pub(crate) mod mapping;
pub(crate) mod params;
pub(crate) mod sync;
pub(crate) mod sys;
pub(crate) mod ticks;
pub(crate) mod usable;
