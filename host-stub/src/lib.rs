//! A host for transport plugins.
//!
//! Its modules are layers, each of which names only those above it in this list:
//!
//! - `base` holds operations, memory, parameters ([`params`]), log messages ([`log`]) and the identity of a
//!   process on its machine ([`process`]).
//! - [`bootstrap`] tells the processes of a job of each other; [`launcher`] starts them.
//! - [`loader`] opens a plugin, checks it, and wraps its functions. It comes after [`bootstrap`], through
//!   which a plugin publishes its addresses.
//! - `registrations` keeps registrations of buffers for operations to come.
//! - [`crt`] makes calls wait, as the master, a thread or a task, and makes progress during the wait.
//! - [`device`] is memory of devices.
//! - [`job`] puts these together: a process as a rank, connected to all others, with a slot for what each
//!   layer below keeps with it. It comes after [`crt`], because joining and leaving a job wait.
//! - `mailbox` carries small messages made of puts, `schedule` runs collectives over them.
//! - [`win`] is one-sided communication in terms of windows; beside it, [`comm`] is groups of ranks, with
//!   hooks for layers and a table of collectives.
//! - [`coll`] is what communicators do collectively.
//!
//! The `host-stub` program and its self-check are crates above this one.
//!
//! A window belongs to a job, a job holds a transport, a transport keeps its plugin loaded.

mod base;
pub mod bootstrap;
pub mod coll;
pub mod comm;
pub mod crt;
pub mod device;
pub mod job;
pub mod launcher;
pub mod loader;
mod mailbox;
mod registrations;
mod schedule;
pub mod win;

pub use base::{log, params, process};
pub use comm::Comm;
pub use job::{Job, JobError, JobOptions};
