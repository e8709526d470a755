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

/// How often the launcher looks after its ranks.
const TICK: Duration = Duration::from_millis(10);

/// How long ranks may take to go after SIGTERM, before SIGKILL.
const GRACE: Duration = Duration::from_millis(500);

/// How long ranks may take to go after SIGKILL, before the launcher says that they have not.
const LAST: Duration = Duration::from_millis(1000);

/// The exit code for a job that went wrong without any process having failed.
const BROKEN_JOB: u8 = 5;

/// What to run.
#[derive(Clone, Debug)]
pub struct LaunchOptions {
    /// Number of ranks, at least 1.
    pub ranks: u32,
    /// The program: a path, or a name looked for on `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Further variables of its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Parameters set above every other source, in every rank.
    pub settings: Vec<Setting>,
    /// Whether the other ranks go on when one fails. A wait for the failed rank gets an
    /// error; the job ends with the last rank, and its outcome tells of the first failure.
    pub recovery: bool,
    /// Whether each line that a rank prints starts with its rank. The job then ends only when its output was read, or with
    /// an interrupt.
    pub tag_output: bool,
    /// Ends the job when one arrives. To be had once per process, from [`Interrupts::install`].
    pub interrupts: Option<Interrupts>,
}

impl LaunchOptions {
    /// Runs `program` with no arguments on `ranks` ranks.
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

/// How a job ended.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// 0 when every rank ended well; else the exit code of the rank that failed first, 128 and
    /// the signal that killed it, 128 and the signal that the launcher got, or 5 where ranks only left without a word.
    pub code: u8,
    /// What went wrong, for people.
    pub failure: Option<String>,
    /// The rank that failed first, if it was one.
    pub failed_rank: Option<u32>,
    /// How each rank ended, in order; those ended by the launcher included.
    pub ranks: Vec<RankOutcome>,
}

/// How one rank ended.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RankOutcome {
    /// The rank.
    pub rank: u32,
    /// Its process.
    pub pid: i32,
    /// How it ended; none if it could not be ended.
    pub end: Option<End>,
}

/// Why a job could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// An invalid number of ranks.
    #[error("{found} ranks: wanted 1 to {MAX_RANKS}")]
    Ranks {
        /// The number.
        found: u32,
    },
    /// The program could not be started.
    #[error("cannot start `{}` as rank {rank}: {source}", program.to_string_lossy())]
    Program {
        /// The program.
        program: OsString,
        /// The rank.
        rank: u32,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused what the launcher needs, or the wait for the ranks.
    #[error("cannot look after the ranks: {0}")]
    System(io::Error),
}

/// Runs a job to its end. Returns when no process of it is left. The calling thread starts the
/// ranks and waits: they are killed if it ends before. A SIGCHLD that this process ignores gets its default action, in
/// the ranks too. It becomes a subreaper.
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
    // From here on every path ends what was started: run's error included.
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

/// Has the system tell how children end where SIGCHLD is ignored, as some parents leave it. Children inherit the default.
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

/// A new job's name, unique on this machine.
fn name() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanoseconds = since.map_or(0, |time| time.as_nanos());
    // The thread's address space differs between threads that launch in the same nanosecond.
    let local = 0_u8;
    let salt = nanoseconds as u64 ^ (&raw const local as u64).rotate_left(40);
    format!("{}-{salt:x}", std::process::id())
}

fn code_of_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}
