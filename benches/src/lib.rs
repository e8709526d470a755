//! What the measuring programs share: becoming ranks of a job, statistics, and the files that the report is made of.

#![warn(missing_docs)]

pub mod part;
pub mod ranks;
pub mod statistics;
pub mod target;
