//! Starts the processes of a job on this machine and answers for how they end.
//!
//! [`launch`] runs the ranks, serves the socket they find each other through, and ends the whole
//! job when one of them fails. Afterwards nothing of the job is left: no process, no file in its
//! private directory, no shared-memory segment. A [guard] process does the same when the
//! launcher itself is killed.

mod client;
mod directory;
mod events;
pub mod guard;
mod inherited;
mod members;
mod output;
mod rank;
mod remains;
mod requests;
pub mod server;
mod signals;
mod watch;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::base::params::Setting;
use crate::bootstrap::protocol::MAX_RANKS;

use directory::Directory;
use guard::Guard;
use server::Server;
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
    /// The program that cleans up when the launcher is killed: one that runs [`guard::run`] for
    /// the single argument `guard`, as `host-stub` does. Without one, ranks still end with the
    /// launcher, but their descendants and files may stay.
    pub guard: Option<PathBuf>,
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
            guard: None,
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
    /// A number of ranks that is none.
    #[error("{found} ranks: wanted 1 to {MAX_RANKS}")]
    Ranks {
        /// The number.
        found: u32,
    },
    /// There is no place for the job's private directory.
    #[error("private directory: cannot make one in {tried}: {source}")]
    Directory {
        /// Where it was tried, in order.
        tried: String,
        /// What the system said of the last.
        source: io::Error,
    },
    /// The launcher's socket could not be made.
    #[error("socket {}: {source}", path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The guard could not be started.
    #[error("guard {}: {source}", program.display())]
    Guard {
        /// Its program.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
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
    /// Waiting for the ranks failed.
    #[error("cannot look after the ranks: {0}")]
    Wait(io::Error),
}

/// Runs a job to its end. Returns when no process of it is left. The calling thread starts the
/// ranks and waits: they are killed if it ends before. A SIGCHLD that this process ignores gets its default action, in
/// the ranks too. Its limit of open descriptors is raised; the ranks have the former one.
pub fn launch(options: &LaunchOptions) -> Result<Outcome, LaunchError> {
    if !(1..=MAX_RANKS).contains(&options.ranks) {
        return Err(LaunchError::Ranks {
            found: options.ranks,
        });
    }
    inherited::await_children();
    let limits = inherited::raise_descriptors();
    let directory = Directory::create()?;
    let mut guard = options
        .guard
        .as_ref()
        .map(|program| Guard::start(program, &directory))
        .transpose()?;
    let mut server = Server::listen(&directory.socket(), options.ranks).map_err(|source| {
        LaunchError::Socket {
            path: directory.socket(),
            source,
        }
    })?;
    let mut watch = Watch::new(directory.job());
    let outcome = watch.run(options, limits, &directory, &mut server, guard.as_mut());
    // From here on every path ends what was started: run's error included.
    let grace = match outcome {
        Ok(None) => Duration::ZERO,
        _ => GRACE,
    };
    watch.end(grace, options.interrupts.as_ref());
    drop(server);
    let ranks = watch.outcomes();
    remains::Ended {
        job: directory.job(),
        began: directory.made(),
        pids: &watch.members().pids(),
    }
    .remove_files();
    drop(directory);
    if let Some(guard) = guard {
        guard.dismiss();
    }
    let failure = outcome?.or_else(|| watch.interruption());
    Ok(Outcome {
        code: failure.as_ref().map_or(0, |failure| failure.code),
        failed_rank: failure.as_ref().and_then(|failure| failure.rank),
        failure: failure.map(|failure| failure.message),
        ranks,
    })
}

fn code_of_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}
