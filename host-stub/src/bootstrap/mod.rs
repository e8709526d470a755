//! How the processes of a job find each other: rank, size, published data, and a fence.
//!
//! [`from_environment`] finds out who started this process: the [`local`] launcher, a launcher with a PMIx server
//! ([`pmix`]), or nobody ([`Singleton`]). This module does not know the transport. A wait here gets a function that it
//! calls while waiting, because a peer's operation may need this process's progress.

mod environment;
pub mod local;
pub mod pmix;
pub mod protocol;
mod singleton;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

pub use protocol::{MAX_ITEM, ProtocolError};
pub use singleton::Singleton;

/// Called over and over while this process waits for others.
pub type Progress<'a> = &'a mut dyn FnMut();

/// Says why some rank will never come, once that is known.
pub type Lost = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// How long a wait goes on after the reason to give it up is known: what it waits for may be on its
/// way, sent before the rank in question ended in good order.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// A wait for other ranks, and its end when one of them is lost.
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

    /// To be asked at every visit in which what is waited for was not there.
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

/// The processes of a job, and what they tell each other out of band. Any thread may call;
/// [`fence`](Self::fence) and [`allgather`](Self::allgather) are collective, so every rank calls
/// them in the same order.
pub trait Bootstrap: Send + Sync {
    /// This process's rank, below [`size`](Self::size).
    fn rank(&self) -> u32;

    /// Processes of the job.
    fn size(&self) -> u32;

    /// A name of the job, the same at every rank and unique on the machine: letters, digits, `-`.
    fn job(&self) -> &str;

    /// Publishes at most [`MAX_ITEM`] bytes under a key; a second time, replaces them. Visible to
    /// the others after the next fence.
    fn put(&self, key: &str, data: &[u8]) -> Result<(), BootstrapError>;

    /// What a rank published under a key before the last fence; none if nothing.
    fn get(&self, rank: u32, key: &str) -> Result<Option<Vec<u8>>, BootstrapError>;

    /// Waits until every rank is here.
    fn fence(&self, progress: Progress<'_>) -> Result<(), BootstrapError> {
        self.allgather(&[], progress).map(drop)
    }

    /// Gives every rank what each rank gave, in the order of the ranks; at most [`MAX_ITEM`] bytes
    /// each. Also a fence.
    fn allgather(
        &self,
        data: &[u8],
        progress: Progress<'_>,
    ) -> Result<Vec<Vec<u8>>, BootstrapError>;

    /// Has waits for other ranks end with [`BootstrapError::GaveUp`] once `lost` gives a reason: a
    /// rank is gone, or silent for too long. Taken once; later ones are ignored.
    fn give_up_when(&self, lost: Lost) {
        let _ = lost;
    }

    /// The node a rank runs on: ranks with the same number share memory. The same at every rank.
    fn node(&self, rank: u32) -> u32;

    /// Asks for the end of the whole job with an exit code. Returns at once; the caller leaves too.
    fn abort(&self, code: u8, message: &str);

    /// Leaves the job in good order. A process that goes without having said so has failed.
    fn finalize(&self) -> Result<(), BootstrapError>;
}

/// Why the processes of the job could not be reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BootstrapError {
    /// A variable that the launcher sets is missing or means nothing.
    #[error(
        "environment variable {name}: wanted {wanted}, found {found}; it is set by \
         `host-stub launch` and not by hand"
    )]
    Environment {
        /// The variable.
        name: &'static str,
        /// What it should hold.
        wanted: &'static str,
        /// What it holds.
        found: String,
    },
    /// The launcher's socket failed.
    #[error("launcher: {action}: {source} (has the launcher ended?)")]
    Io {
        /// What was being done.
        action: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The launcher closed the connection.
    #[error("launcher: closed the connection while this rank was waiting for {what}")]
    Closed {
        /// What was waited for.
        what: &'static str,
    },
    /// The launcher turned a request away.
    #[error("launcher: {0}")]
    Refused(String),
    /// A message that cannot be understood, or is another than was due.
    #[error("launcher: {0}")]
    Protocol(#[from] ProtocolError),
    /// Nobody has that rank.
    #[error("rank {rank}: wanted a rank below {size}")]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// The job's size.
        size: u32,
    },
    /// libpmix, or a function of it, is not there.
    #[error(
        "PMIx: cannot open {file}: {source}; a launcher with PMIx started this process \
         (PMIX_NAMESPACE is set): install libpmix (Debian: libpmix2, libpmix2t64), or name its \
         folder in LD_LIBRARY_PATH"
    )]
    PmixLibrary {
        /// The file.
        file: &'static str,
        /// What the dynamic loader said.
        source: libloading::Error,
    },
    /// Slurm started several processes, and no PMIx by which they could meet.
    #[error(
        "Slurm started {tasks} processes (SLURM_STEP_NUM_TASKS) without PMIx: use `srun --mpi=pmix` (Debian: \
         slurm-wlm-basic-plugins and libpmix2 on every node; `srun --mpi=list` names what there is), or \
         MpiDefault=pmix in slurm.conf"
    )]
    SlurmAlone {
        /// How many.
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
        /// What it was about; may be empty.
        subject: String,
        /// The status as `PMIx_Error_string` names it.
        text: String,
        /// The status.
        status: i32,
    },
    /// The PMIx server says of the job what makes no sense.
    #[error("PMIx: wanted {what}, found {found}")]
    PmixJob {
        /// What was wanted.
        what: &'static str,
        /// What it says.
        found: String,
    },
    /// A published value has a type that nothing here publishes.
    #[error("PMIx: {what}: wanted a number, a text or bytes, found PMIx's type {kind}")]
    PmixType {
        /// The key and its owner.
        what: String,
        /// The type's number.
        kind: u16,
    },
    /// A rank published something else than was due.
    #[error("PMIx: {key} of rank {rank}: {reason}")]
    PmixValue {
        /// Whose value.
        rank: u32,
        /// Its key.
        key: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A rank has ended, and what was waited for needs it.
    #[error("rank {rank} has ended, and the other ranks wait for it no longer")]
    Lost {
        /// The rank.
        rank: u32,
    },
    /// The wait is over because a rank will never come.
    #[error("gave up waiting for the other ranks: {reason}")]
    GaveUp {
        /// How that is known.
        reason: String,
    },
    /// The job was left already.
    #[error("{what} after this process left the job")]
    Left {
        /// What was asked for.
        what: &'static str,
    },
}

/// Joins the job that this process was started in, or makes one of its own.
pub fn from_environment() -> Result<Arc<dyn Bootstrap>, BootstrapError> {
    Ok(match local::Environment::read()? {
        // First, because the local launcher may itself run under another.
        Some(environment) => Arc::new(local::Local::join(&environment)?),
        None if pmix::launched() => Arc::new(pmix::Pmix::join()?),
        None => match slurm_tasks() {
            Some(tasks) if tasks > 1 => return Err(BootstrapError::SlurmAlone { tasks }),
            _ => Arc::new(Singleton::new()),
        },
    })
}

/// Tasks of the step of Slurm's that this process belongs to; none outside of one.
fn slurm_tasks() -> Option<u32> {
    std::env::var("SLURM_STEP_NUM_TASKS").ok()?.parse().ok()
}
