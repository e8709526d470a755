//! Starts the processes of a job on this machine and answers for how they end.
//!
//! [`launch`] runs the ranks, serves the socket they find each other through, and ends the whole
//! job when one of them fails. Afterwards nothing of the job is left: no process, no file in its
//! private directory, no shared-memory segment. A [guard](guard) process does the same when the
//! launcher itself is killed.

mod directory;
pub mod guard;
mod members;
mod output;
mod rank;
mod remains;
pub mod server;
mod signals;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::bootstrap::protocol::MAX_RANKS;
use crate::params::{SETTINGS_ENV, Setting, encode};

use directory::Directory;
use guard::Guard;
use members::Members;
use rank::{Rank, Spawn};
use server::{Event, Membership, Server};

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
    /// Whether each line that a rank prints starts with its rank.
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
    /// the signal that killed it, 128 and the signal that the launcher got, or 5.
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

/// What ended a job before its ranks did.
struct Failure {
    code: u8,
    rank: Option<u32>,
    message: String,
}

/// Runs a job to its end. Returns when no process of it is left. The calling thread starts the
/// ranks and waits: they are killed if it ends before.
pub fn launch(options: &LaunchOptions) -> Result<Outcome, LaunchError> {
    if !(1..=MAX_RANKS).contains(&options.ranks) {
        return Err(LaunchError::Ranks {
            found: options.ranks,
        });
    }
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
    let mut job = Job {
        ranks: Vec::with_capacity(options.ranks as usize),
        members: Members::new(directory.job()),
    };
    let outcome = job.run(options, &directory, &mut server, guard.as_mut());
    // From here on every path ends what was started: run's error included.
    job.end(match outcome {
        Ok(None) => Duration::ZERO,
        _ => GRACE,
    });
    drop(server);
    let ranks = job.outcomes();
    remains::remove(directory.job(), job.members.pids());
    drop(directory);
    if let Some(guard) = guard {
        guard.dismiss();
    }
    let failure = outcome?;
    Ok(Outcome {
        code: failure.as_ref().map_or(0, |failure| failure.code),
        failed_rank: failure.as_ref().and_then(|failure| failure.rank),
        failure: failure.map(|failure| failure.message),
        ranks,
    })
}

struct Job {
    ranks: Vec<Rank>,
    members: Members,
}

impl Job {
    /// Starts the ranks and serves them until all have ended well, or something failed.
    fn run(
        &mut self,
        options: &LaunchOptions,
        directory: &Directory,
        server: &mut Server,
        mut guard: Option<&mut Guard>,
    ) -> Result<Option<Failure>, LaunchError> {
        let settings = (SETTINGS_ENV, encode(&options.settings));
        for number in 0..options.ranks {
            let spawn = Spawn {
                options,
                directory,
                settings: &settings,
                number,
            };
            let rank = spawn.start().map_err(|source| LaunchError::Program {
                program: options.program.clone(),
                rank: number,
                source,
            })?;
            self.members.add(rank.pid());
            if let Some(guard) = guard.as_mut() {
                guard.add(rank.pid());
            }
            self.ranks.push(rank);
        }
        loop {
            let interrupts = options.interrupts.as_ref();
            let events = server
                .poll(TICK, interrupts.map(Interrupts::descriptor))
                .map_err(LaunchError::Wait)?;
            if let Some(failure) = self.judge_events(events, guard.as_deref_mut()) {
                return Ok(Some(failure));
            }
            if let Some(signal) = interrupts.and_then(Interrupts::take) {
                return Ok(Some(Failure {
                    code: code_of_signal(signal),
                    rank: None,
                    message: format!("got {}; ended the job", rank::signal_name(signal)),
                }));
            }
            let mut ended = false;
            for rank in &mut self.ranks {
                ended |= rank.look().map_err(LaunchError::Wait)?;
            }
            if !ended {
                continue;
            }
            // What an ended rank said last may still lie in its socket.
            let events = server
                .poll(Duration::ZERO, None)
                .map_err(LaunchError::Wait)?;
            if let Some(failure) = self.judge_events(events, guard.as_deref_mut()) {
                return Ok(Some(failure));
            }
            if let Some(failure) = self.judge_ends(server) {
                return Ok(Some(failure));
            }
            if self.ranks.iter().all(|rank| rank.end().is_some()) {
                return Ok(None);
            }
        }
    }

    fn judge_events(
        &mut self,
        events: Vec<Event>,
        mut guard: Option<&mut Guard>,
    ) -> Option<Failure> {
        for event in events {
            match event {
                Event::Joined { pid, .. } => {
                    // A rank may be started through a shell, so this need not be the process
                    // that the launcher knows.
                    if self.members.add(pid)
                        && let Some(guard) = guard.as_mut()
                    {
                        guard.add(pid);
                    }
                }
                Event::Aborted {
                    rank,
                    code,
                    message,
                } => {
                    return Some(Failure {
                        // An abort is a failure whatever code it gives.
                        code: code.max(1),
                        rank: Some(rank),
                        message: format!(
                            "rank {rank} asked for the end of the job (code {code}): {message}"
                        ),
                    });
                }
                Event::Broken { rank, reason } => {
                    return Some(Failure {
                        code: BROKEN_JOB,
                        rank: Some(rank),
                        message: format!("rank {rank}: {reason}; ended the job"),
                    });
                }
                Event::Stray { reason } => {
                    tracing::warn!("turned away a connection that is no rank's: {reason}");
                }
            }
        }
        None
    }

    /// What the ends of processes mean for the job.
    fn judge_ends(&self, server: &Server) -> Option<Failure> {
        // Of several that ended since the last look, one that a signal killed is the cause of the
        // others' exit codes more likely than the reverse.
        let killed = self
            .ranks
            .iter()
            .find(|rank| matches!(rank.end(), Some(End::Signal(_))));
        let failed = self
            .ranks
            .iter()
            .find(|rank| matches!(rank.end(), Some(End::Exit(code)) if code != 0));
        if let Some(rank) = killed.or(failed) {
            let end = rank.end()?;
            return Some(Failure {
                code: end.code(),
                rank: Some(rank.number()),
                message: format!(
                    "rank {} (process {}) {end}; ended the job",
                    rank.number(),
                    rank.pid()
                ),
            });
        }
        let waiting = server.waiting();
        for rank in self.ranks.iter().filter(|rank| rank.end().is_some()) {
            let number = rank.number();
            let reason = match server.membership(number) {
                Membership::Joined => "ended without leaving the job in good order".to_owned(),
                _ if !waiting.is_empty() && !waiting.contains(&number) => {
                    let others: Vec<String> = waiting.iter().map(u32::to_string).collect();
                    format!("ended while rank {} waited for it", others.join(", "))
                }
                _ => continue,
            };
            return Some(Failure {
                code: BROKEN_JOB,
                rank: Some(number),
                message: format!(
                    "rank {number} (process {}) {reason}; ended the job",
                    rank.pid()
                ),
            });
        }
        None
    }

    /// Ends what is left of the job: SIGTERM, after `grace` SIGKILL.
    fn end(&mut self, grace: Duration) {
        let mut deadline = Instant::now() + grace;
        let mut signal = libc::SIGTERM;
        if grace.is_zero() {
            // Every rank ended well: what it left running is not asked, only removed.
            signal = libc::SIGKILL;
            deadline += LAST;
        }
        self.members.signal(signal);
        loop {
            let mut running = false;
            for rank in &mut self.ranks {
                // An error means that it is no child any more, so it is not running either.
                let _ = rank.look();
                running |= rank.end().is_none();
            }
            if !running && self.members.living().is_empty() {
                break;
            }
            if Instant::now() >= deadline {
                if signal == libc::SIGKILL {
                    tracing::error!("processes {:?} do not end", self.members.living());
                    break;
                }
                signal = libc::SIGKILL;
                deadline = Instant::now() + LAST;
            }
            if signal == libc::SIGKILL {
                // Again and again: a process may have forked between the look and the signal.
                self.members.signal(signal);
            }
            std::thread::sleep(TICK);
        }
        for rank in &mut self.ranks {
            rank.reap();
        }
    }

    fn outcomes(&self) -> Vec<RankOutcome> {
        self.ranks
            .iter()
            .map(|rank| RankOutcome {
                rank: rank.number(),
                pid: rank.pid(),
                end: rank.end(),
            })
            .collect()
    }
}

fn code_of_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}
