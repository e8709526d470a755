//! What everything stands on: errors, lines, parameters, locks, and what asks the kernel for something.

pub(crate) mod capabilities;
pub(crate) mod cma;
pub(crate) mod environment;
pub(crate) mod error;
pub(crate) mod guard;
pub(crate) mod hints;
pub(crate) mod lock;
#[cfg(test)]
mod lock_tests;
pub mod log;
pub(crate) mod params;
pub(crate) mod sync;
