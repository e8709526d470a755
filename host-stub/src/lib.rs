//! A host for transport plugins.
//!
//! - [`loader`] opens a plugin, checks it, and wraps its functions.
//! - [`bootstrap`] tells the processes of a job of each other; [`launcher`] starts them.
//! - [`job`] puts the two together: a process as a rank, connected to all others.
//! - [`comm`] is groups of its ranks, with hooks for layers; [`coll`] what they do collectively.
//! - `mailbox` carries small messages made of puts, `schedule` runs collectives over them.
//! - [`crt`] is how calls wait: as the master, as a thread or as a task, and who makes progress meanwhile.
//! - [`win`] is one-sided communication in terms of windows.
//! - [`process`] is who a process is, for others on its machine.
//! - `registrations` keeps registrations of buffers for operations to come.
//! - [`params`] and [`log`] are the plugin's and the host's settings and messages.
//! - [`command`] is the `host-stub` program.
//!
//! A window belongs to a job, a job holds a transport, a transport keeps its plugin loaded.

mod base;
pub mod bootstrap;
pub mod coll;
pub mod comm;
pub mod command;
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
