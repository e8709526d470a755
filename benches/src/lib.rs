//! What the measuring programs share: becoming ranks of a job, statistics, and the targets of the report.

#![warn(missing_docs)]

pub mod ranks;
pub mod statistics;
pub mod target;
