//! The base of all other folders: the settings, the reports about the user, the arithmetic of
//! atomics.

pub(crate) mod arithmetic;
pub(crate) mod config;
pub(crate) mod faults;
pub(crate) mod missing;
pub(crate) mod random;
pub(crate) mod report;
pub(crate) mod variables;
