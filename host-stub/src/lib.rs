//! One-sided communication between processes: windows, epochs, collectives, device memory, and waiting that blocks
//! the process, the thread or only the task.
//!
//! The bytes are carried by a transport plugin, such as `libbtl_ofi.so` over libfabric. A job is started by
//! `host-stub launch`, or by a launcher with PMIx, and begins with [`Job::init`]:
//!
//! ```no_run
//! use host_stub::rma::Window;
//! use host_stub::{Job, JobOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let job = Job::init(JobOptions::default())?;
//! let counter = Window::<u64>::allocate(&job, 1)?;
//! // Every rank takes a number; no two ranks take the same.
//! let mine = counter.lock_all(|epoch| epoch.fetch_and_op(1, 0, 0, host_stub::rma::Op::Sum))?;
//! println!("rank {} took {mine}", job.rank());
//! counter.free()?;
//! job.finalize()?;
//! # Ok(())
//! # }
//! ```
//!
//! - [`rma`] is the place to begin: typed windows and epochs as scopes, in safe Rust.
//! - [`win`] is the same with everything that MPI's one-sided chapter has. Calls with buffers are unsafe, because their
//!   operations outlive the calls.
//! - [`coll`] and [`comm`] are collectives and communicators, [`crt`] is how calls wait, [`device`] is memory of devices.
//! - The examples of this crate are hello, a halo exchange, a hash table, a shared counter, and a window on a device.
//!
//! # Layers
//!
//! The modules of this crate are layers; each names only modules above it in this table
//! (`scripts/file_cycles.py` checks it):
//!
//! | | |
//! | --- | --- |
//! | `base` | operations, memory, parameters ([`params`]), log messages ([`log`]), the identity of a process on its machine ([`process`]) |
//! | `bootstrap` | tells the processes of a job of each other; plugins publish their addresses through it |
//! | `launcher` | starts the processes of a job |
//! | `loader` | opens a plugin and checks it; its functions are wrapped by the engine's transport |
//! | `crt` | makes calls wait, as the master, a thread or a task, and makes progress during the wait |
//! | `device` | memory of devices |
//! | `job` | puts these together: a process as a rank, connected to all others, with a slot for the state of each layer below |
//! | `mailbox` | small messages made of puts |
//! | `schedule` | runs collectives over the mailbox |
//! | `comm` | groups of ranks, with hooks for layers and a table of collectives |
//! | `win` | the windows of the engine (crate `osc-engine`), and the services of jobs, communicators, waits and devices for it |
//! | `coll` | collectives of communicators |
//! | `rma` | windows in safe Rust |
//! | `declarations` | the parameters of all layers |
//! | `init` | begins a job, which tells of names that are in no layer's list |
//!
//! The `host-stub` program and its self-check are crates above this one.
//!
//! A window belongs to a job, a job holds a transport, a transport keeps its plugin loaded.

mod base;
pub mod bootstrap;
pub mod coll;
pub mod comm;
pub mod crt;
pub mod declarations;
pub mod device;
mod init;
pub mod job;
pub mod launcher;
pub mod loader;
mod mailbox;
pub mod rma;
mod schedule;
pub mod win;

pub use base::{log, params, process, trace};
pub use comm::Comm;
pub use job::{Job, JobError, JobOptions};
