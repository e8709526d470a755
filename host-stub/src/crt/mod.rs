//! The common runtime: decides whether a blocking call blocks the process, the thread or the task, and which
//! thread makes progress meanwhile.
//!
//! - [`Mode`]: master, thread or task, chosen by `OMP_EXTERNAL` or [`set_external`] before init.
//! - [`Level`]: how threads and tasks may call, and the [`Checker`] that enforces this.
//! - [`Cond`], [`wait`] and [`signal`]: the two-function interface between the host and a tasking
//!   runtime (`crt_cond_t`, `crt_wait`, `crt_signal`). Conditions belong to threads or tasks and are
//!   attached to requests, whose completion signals.
//! - [`Hooks`]: the functions of a tasking runtime by which a waiting task leaves its thread.
//! - [`Engine`]: progress, of the transport and of every [`Source`], and the one way to wait for it,
//!   through which all blocking calls of the host go (`waits`, `tasks`). The wait queue passes the progress token
//!   among the waiters (`wait_queue`), with or without a progress thread (`progress_thread`).
//!
//! This module does not depend on windows or collectives; they describe their waits by [`Blocking`].

mod completion;
mod cond;
#[cfg(test)]
mod cond_tests;
mod door;
mod engine;
mod hooks;
mod level;
mod mode;
mod pace;
mod progress_thread;
mod runtime;
mod sync;
mod tasks;
mod wait_queue;
mod waits;
mod watched;

pub use completion::{AttachError, attach};
pub use cond::{Cond, Misuse};
pub use engine::{Blocking, Busy, Engine, Source};
pub use hooks::{CAN_SUSPEND, CAN_YIELD, Hooks, HooksError, set_hooks};
pub use level::{CHECK, Checker, Entered, Level, LevelError};
pub use mode::{EXTERNAL_ENV, Mode, external, set_external};
pub use runtime::{PROGRESS_THREAD, PROGRESS_THREAD_CORE, Runtime, RuntimeError, signal, wait};

pub(crate) use door::{Waits, Watches};
pub(crate) use engine::Until;
pub(crate) use runtime::Plan;
pub(crate) use watched::watched;

use hooks::resume;

/// The name of the calling task, as the hooks return it; 0 outside of a task.
pub fn running_task() -> usize {
    hooks::running_task().map_or(0, |(_, task)| task.addr())
}
