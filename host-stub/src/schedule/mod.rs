//! Collectives as lists of steps, run by progress.
//!
//! A [`Plan`] is the part of one rank in one collective: sends, receives, copies and combinations, in rounds. A
//! round begins when all sends and receives of the previous round are done (the schedules of Hoefler, Lumsdaine,
//! Rehm, "Implementation and Performance Analysis of Non-Blocking Collective Operations for MPI", SC 2007). The
//! [`Engine`] runs all plans of a process over one mailbox. Short payloads travel in messages; long payloads are
//! offered, and their receivers fetch them with gets. No step depends on the order of two puts.
//!
//! This module does not use communicators: a [`Scope`] lists the ranks of a schedule. The one algorithm here is the
//! allgather that creates communicators.

mod allgather;
mod ends;
mod engine;
#[cfg(test)]
mod engine_tests;
mod error;
mod extents;
mod fetch;
mod matching;
mod plan;
mod receive;
mod run;
mod scope;

pub(crate) use allgather::allgather_bruck;
pub(crate) use engine::{Engine, Ticket};
pub use error::{CommError, CommResult};
pub(crate) use extents::{Extent, Extents};
pub(crate) use plan::Plan;
pub(crate) use scope::{CONTEXTS, Plane, Scope};
