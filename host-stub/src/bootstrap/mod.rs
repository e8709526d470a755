//! Meeting of the processes of a job: rank, size, and exchanges among all ranks.
//!
//! [`from_environment`] finds the launcher of this process: the [`local`] launcher, a launcher with a PMIx server
//! ([`pmix`]), or neither ([`Singleton`]). This module does not know the transport. A wait here gets a function that
//! it calls while waiting, because a peer's operation may need this process's progress.

mod environment;
pub mod local;
pub mod pmix;
pub mod protocol;
mod singleton;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::base::{Turn, Turns};

pub use protocol::{MAX_ITEM, ProtocolError};
pub use singleton::Singleton;

/// A function that is called repeatedly while this process waits for other ranks.
pub type Progress<'a> = &'a mut dyn FnMut();

/// Returns the reason why a rank will never arrive, or `None` while no such reason is known.
pub type Lost = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// Time that a wait continues after the reason to abandon it is known. The awaited message may
/// still be on its way, sent before the rank in question left in good order.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// A wait for other ranks, which ends when one of them is lost.
struct Patience<'a> {
    lost: Option<&'a Lost>,
    since: Option<Instant>,
}

impl<'a> Patience<'a> {
    fn new(lost: &'a OnceLock<Lost>) -> Self {
        Patience {
            lost: lost.get(),
            since: None,
        }
    }

    /// The waiter must call this function on every check at which the awaited event has not
    /// happened.
    fn check(&mut self) -> Result<(), BootstrapError> {
        let Some(reason) = self.lost.and_then(|lost| lost()) else {
            return Ok(());
        };
        if self.since.get_or_insert_with(Instant::now).elapsed() < LAST_WORDS {
            return Ok(());
        }
        Err(BootstrapError::GaveUp { reason })
    }
}

/// Waits until no other exchange of this rank is in progress.
fn turn<'a, T>(
    turns: &'a Turns<T>,
    lost: &OnceLock<Lost>,
    progress: Progress<'_>,
) -> Result<Turn<'a, T>, BootstrapError> {
    let mut patience = Patience::new(lost);
    loop {
        if let Some(turn) = turns.try_take() {
            return Ok(turn);
        }
        patience.check()?;
        progress();
        std::thread::yield_now();
    }
}

/// The processes of a job, and the data that they exchange out of band. Any thread may call;
/// [`fence`](Self::fence) and [`allgather`](Self::allgather) are collective, so every rank calls
/// them in the same order.
pub trait Bootstrap: Send + Sync {
    /// This process's rank, below [`size`](Self::size).
    fn rank(&self) -> u32;

    /// Number of processes in the job.
    fn size(&self) -> u32;

    /// The name of the job, equal on all ranks and unique on the machine: letters, digits, `-`.
    fn job(&self) -> &str;

    /// Waits until every rank has called.
    fn fence(&self, progress: Progress<'_>) -> Result<(), BootstrapError> {
        self.allgather(&[], progress).map(drop)
    }

    /// Gives every rank the contributions of all ranks, in rank order; each has at most
    /// [`MAX_ITEM`] bytes. The call is also a fence.
    fn allgather(
        &self,
        data: &[u8],
        progress: Progress<'_>,
    ) -> Result<Vec<Vec<u8>>, BootstrapError>;

    /// Lets waits for other ranks end with [`BootstrapError::GaveUp`] after `lost` returns a
    /// reason: a rank is dead, or silent for too long. Only the first call has an effect.
    fn give_up_when(&self, lost: Lost) {
        let _ = lost;
    }

    /// The node of a rank. Ranks with the same number share memory. The number is the same on every
    /// rank.
    fn node(&self, rank: u32) -> u32;

    /// Requests the end of the whole job with an exit code. Returns at once; the caller then exits,
    /// too.
    fn abort(&self, code: u8, message: &str);

    /// Leaves the job in good order. A process that ends without this call counts as failed.
    fn finalize(&self) -> Result<(), BootstrapError>;
}

/// The reason why the processes of the job could not be reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BootstrapError {
    /// A variable that the launcher sets is missing or invalid.
    #[error(
        "environment variable {name}: wanted {wanted}, found {found}; it is set by \
         `host-stub launch` and not by hand"
    )]
    Environment {
        /// The variable.
        name: &'static str,
        /// The expected value.
        wanted: &'static str,
        /// The actual value.
        found: String,
    },
    /// The launcher's socket failed.
    #[error("launcher: {action}: {source} (has the launcher ended?)")]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The launcher closed the connection.
    #[error("launcher: closed the connection while this rank was waiting for {what}")]
    Closed {
        /// The expected message.
        what: &'static str,
    },
    /// The launcher refused a request.
    #[error("launcher: {0}")]
    Refused(String),
    /// A message is malformed, or is not the expected one.
    #[error("launcher: {0}")]
    Protocol(#[from] ProtocolError),
    /// libpmix, or one of its functions, was not found.
    #[error(
        "PMIx: cannot open {file}: {source}; a launcher with PMIx started this process \
         (PMIX_NAMESPACE is set): install libpmix (Debian: libpmix2, libpmix2t64), or name its \
         folder in LD_LIBRARY_PATH"
    )]
    PmixLibrary {
        /// The file.
        file: &'static str,
        /// The message of the dynamic loader.
        source: libloading::Error,
    },
    /// Slurm started several processes without PMIx, so they cannot find each other.
    #[error(
        "Slurm started {tasks} processes (SLURM_STEP_NUM_TASKS) without PMIx: use `srun --mpi=pmix` (Debian: \
         slurm-wlm-basic-plugins and libpmix2 on every node; `srun --mpi=list` names what there is), or \
         MpiDefault=pmix in slurm.conf"
    )]
    SlurmAlone {
        /// The number of processes.
        tasks: u32,
    },
    /// A call of libpmix failed.
    #[error(
        "PMIx: {call}{} returned {text} ({status})",
        if .subject.is_empty() { String::new() } else { format!(" ({subject})") }
    )]
    Pmix {
        /// The function.
        call: &'static str,
        /// The subject of the call; may be empty.
        subject: String,
        /// The name of the status, from `PMIx_Error_string`.
        text: String,
        /// The status.
        status: i32,
    },
    /// The PMIx server's description of the job is invalid.
    #[error("PMIx: wanted {what}, found {found}")]
    PmixJob {
        /// The expected value.
        what: &'static str,
        /// The actual value.
        found: String,
    },
    /// A published value has a type that this crate does not publish.
    #[error("PMIx: {what}: wanted a number, a text or bytes, found PMIx's type {kind}")]
    PmixType {
        /// The key and its owner.
        what: String,
        /// The type's number.
        kind: u16,
    },
    /// A rank published an unexpected value.
    #[error("PMIx: {key} of rank {rank}: {reason}")]
    PmixValue {
        /// The rank.
        rank: u32,
        /// The key.
        key: String,
        /// The error in the value.
        reason: &'static str,
    },
    /// This process cannot read a value that a rank's plugin published.
    #[error(
        "what rank {rank} published is malformed; use the host-stub of one build for all ranks"
    )]
    Malformed {
        /// The rank.
        rank: u32,
    },
    /// A rank has ended, and the wait needs it.
    #[error("rank {rank} has ended, and the other ranks wait for it no longer")]
    Lost {
        /// The rank.
        rank: u32,
    },
    /// The wait was abandoned, because a rank will never arrive.
    #[error("gave up waiting for the other ranks: {reason}")]
    GaveUp {
        /// The evidence that a rank will never arrive.
        reason: String,
    },
    /// The rank has already left the job.
    #[error("{what} after this process left the job")]
    Left {
        /// The requested action.
        what: &'static str,
    },
}

/// Joins the job in which this process was started. Without a job, creates a job of one process.
pub fn from_environment() -> Result<Arc<dyn Bootstrap>, BootstrapError> {
    Ok(match local::Environment::read()? {
        // This check comes first, because the local launcher may itself run under another launcher.
        Some(environment) => Arc::new(local::Local::join(&environment)?),
        None if pmix::launched() => Arc::new(pmix::Pmix::join()?),
        None => match slurm_tasks() {
            Some(tasks) if tasks > 1 => return Err(BootstrapError::SlurmAlone { tasks }),
            _ => Arc::new(Singleton::new()),
        },
    })
}

/// Number of tasks in the Slurm step of this process; `None` outside of a step.
fn slurm_tasks() -> Option<u32> {
    std::env::var("SLURM_STEP_NUM_TASKS").ok()?.parse().ok()
}
