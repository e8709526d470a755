//! Starts the processes of a job on this machine and reports how they end.
//!
//! [`launch`] runs the ranks, serves the sockets by which they find each other, and ends the whole job when one of them
//! fails. Afterwards nothing of the job is left: no process and no shared-memory segment. If the launcher itself is
//! killed, the job's processes are killed too.

mod group;
mod output;
mod rank;
mod remains;
pub mod server;
mod signals;
mod watch;

use std::ffi::OsString;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::base::params::Setting;
use crate::bootstrap::protocol::MAX_RANKS;

use watch::Watch;

pub use rank::End;
pub use signals::Interrupts;

/// Time between two checks of the ranks.
const TICK: Duration = Duration::from_millis(10);

/// Time that ranks have to end after SIGTERM, before SIGKILL.
const GRACE: Duration = Duration::from_millis(500);

/// Time that ranks have to end after SIGKILL, before the launcher reports that they have not ended.
const LAST: Duration = Duration::from_millis(1000);

/// The exit code of a job that failed without a failed process.
const BROKEN_JOB: u8 = 5;

/// The options of a launch.
#[derive(Clone, Debug)]
pub struct LaunchOptions {
    /// Number of ranks, at least 1.
    pub ranks: u32,
    /// The program: a path, or a name that is searched on `PATH`.
    pub program: OsString,
    /// The program's arguments.
    pub arguments: Vec<OsString>,
    /// Additional environment variables of the program.
    pub environment: Vec<(OsString, OsString)>,
    /// Parameters that override every other source, in every rank.
    pub settings: Vec<Setting>,
    /// Whether the other ranks go on when a rank fails. A wait for the failed rank then returns an error. The job ends
    /// with the last rank, and its outcome reports the first failure.
    pub recovery: bool,
    /// Whether each output line of a rank starts with the rank's number. The job then ends only when all output has been
    /// read, or an interrupt arrives.
    pub tag_output: bool,
    /// Signals that end the job when one arrives. A process can obtain them once, from [`Interrupts::install`].
    pub interrupts: Option<Interrupts>,
}

impl LaunchOptions {
    /// Runs `program` without arguments on `ranks` ranks.
    pub fn new(ranks: u32, program: impl Into<OsString>) -> Self {
        LaunchOptions {
            ranks,
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            settings: Vec::new(),
            recovery: false,
            tag_output: false,
            interrupts: None,
        }
    }
}

/// The outcome of a job.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The exit code of the job. The code is 0 if every rank ended without an error. Otherwise the code is the exit code
    /// of the rank that failed first, 128 plus the signal that killed that rank, or 128 plus the signal that the launcher
    /// received. The code is 5 if ranks only closed their connections without notice.
    pub code: u8,
    /// A description of the failure.
    pub failure: Option<String>,
    /// The rank that failed first, if a rank failed.
    pub failed_rank: Option<u32>,
    /// The end of each rank, in order; includes ranks that the launcher ended.
    pub ranks: Vec<RankOutcome>,
}

/// The end of one rank.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RankOutcome {
    /// The rank.
    pub rank: u32,
    /// The id of the rank's process.
    pub pid: i32,
    /// The end of the process; `None` if the launcher could not end the process.
    pub end: Option<End>,
}

/// The reason why a job could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// An invalid number of ranks.
    #[error("{found} ranks: wanted 1 to {MAX_RANKS}")]
    Ranks {
        /// The invalid number.
        found: u32,
    },
    /// The program could not be started.
    #[error("cannot start `{}` as rank {rank}: {source}", program.to_string_lossy())]
    Program {
        /// The program.
        program: OsString,
        /// The rank.
        rank: u32,
        /// The system's error.
        source: io::Error,
    },
    /// The system refused a resource of the launcher, or the wait for the ranks failed.
    #[error("cannot look after the ranks: {0}")]
    System(io::Error),
}

/// Runs a job to its end. Returns when no process of the job is left. The calling thread starts the ranks and waits;
/// the ranks are killed if this thread ends earlier. If this process ignores SIGCHLD, the call restores the default
/// action, which the ranks inherit. The call makes the process a subreaper.
pub fn launch(options: &LaunchOptions) -> Result<Outcome, LaunchError> {
    if !(1..=MAX_RANKS).contains(&options.ranks) {
        return Err(LaunchError::Ranks {
            found: options.ranks,
        });
    }
    await_children();
    let job = name();
    let mut watch = Watch::new(&job).map_err(LaunchError::System)?;
    let outcome = watch.run(options, &job);
    // From here on, every path ends the started processes, even after an error of `run`.
    let grace = match outcome {
        Ok(None) => Duration::ZERO,
        _ => GRACE,
    };
    let ended = watch.end(grace, options.interrupts.as_ref());
    remains::remove_files();
    let failure = outcome?.or(ended.interruption);
    Ok(Outcome {
        code: failure.as_ref().map_or(0, |failure| failure.code),
        failed_rank: failure.as_ref().and_then(|failure| failure.rank),
        failure: failure.map(|failure| failure.message),
        ranks: ended.ranks,
    })
}

/// Restores the default action of SIGCHLD if it is ignored, so that the system reports how children end. Some parents
/// leave SIGCHLD ignored. Children inherit the default action.
fn await_children() {
    // SAFETY: an all-zero sigaction is valid: the default action, without flags.
    let default: libc::sigaction = unsafe { std::mem::zeroed() };
    let mut action = default;
    // SAFETY: both structures are initialised and writable; the signal exists.
    unsafe {
        libc::sigaction(libc::SIGCHLD, std::ptr::null(), &mut action);
        if action.sa_sigaction == libc::SIG_IGN {
            libc::sigaction(libc::SIGCHLD, &default, std::ptr::null_mut());
        }
    }
}

/// Makes a job name that is unique on this machine.
fn name() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanoseconds = since.map_or(0, |time| time.as_nanos());
    // The address of a local variable differs between threads that launch in the same nanosecond.
    let local = 0_u8;
    let salt = nanoseconds as u64 ^ (&raw const local as u64).rotate_left(40);
    format!("{}-{salt:x}", std::process::id())
}

fn code_of_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}
