//! What everything else uses: the settings, what is reported of the user, the arithmetic of atomics.

pub(crate) mod arithmetic;
pub(crate) mod config;
pub(crate) mod faults;
pub(crate) mod missing;
pub(crate) mod random;
pub(crate) mod report;
pub(crate) mod variables;
