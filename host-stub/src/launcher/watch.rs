//! The launcher's supervision of a job: events of its ranks, their consequences, and the job's end.

use std::io;
use std::time::{Duration, Instant};

use super::group::Group;
use super::output;
use super::rank::{self, Rank};
use super::server::{Event, Membership, Server};
use super::{
    BROKEN_JOB, End, Interrupts, LAST, LaunchError, LaunchOptions, RankOutcome, TICK,
    code_of_signal,
};
use crate::base::params::{SETTINGS_ENV, encode};

/// The reason that ended a job before its ranks ended.
pub(super) struct Failure {
    pub(super) code: u8,
    pub(super) rank: Option<u32>,
    pub(super) message: String,
}

impl Failure {
    /// Returns the failure that is closer to the cause; `self` is the earlier failure. A rank that closed its connection
    /// without notice does not name the cause. The end of the process that is the cause may come late, because its
    /// threads end one by one.
    fn before(self, later: Failure) -> Failure {
        match (self.code, later.code) {
            (BROKEN_JOB, code) if code != BROKEN_JOB => later,
            _ => self,
        }
    }
}

/// The ranks of a job and all their child processes.
pub(super) struct Watch {
    ranks: Vec<Rank>,
    group: Group,
    /// The signal that ended the job.
    signal: Option<i32>,
}

impl Watch {
    pub(super) fn new(job: &str) -> io::Result<Self> {
        Ok(Watch {
            ranks: Vec::new(),
            group: Group::new(job)?,
            signal: None,
        })
    }

    /// Starts the ranks and serves them until all have ended without an error, or a failure
    /// occurred.
    pub(super) fn run(
        &mut self,
        options: &LaunchOptions,
        job: &str,
    ) -> Result<Option<Failure>, LaunchError> {
        let (mut server, sockets) = Server::new(options.ranks).map_err(LaunchError::System)?;
        let settings = (SETTINGS_ENV, encode(&options.settings));
        for (number, socket) in (0..).zip(sockets) {
            let of_job = (job, self.group.number());
            let rank = Rank::start(options, of_job, &settings, (number, socket));
            let rank = rank.map_err(|source| LaunchError::Program {
                program: options.program.clone(),
                rank: number,
                source,
            })?;
            self.ranks.push(rank);
        }
        let interrupts = options.interrupts.as_ref();
        let wake = interrupts.map(Interrupts::descriptor);
        let (mut first, mut limit) = (None, TICK);
        loop {
            let events = server.poll(limit, wake).map_err(LaunchError::System)?;
            let failure = judge_events(events, &mut server, options);
            if failure.is_some() {
                return Ok(failure);
            }
            self.signal = interrupts.and_then(Interrupts::take);
            if self.signal.is_some() {
                return Ok(self.interruption());
            }
            if self.look().map_err(LaunchError::System)? {
                // The last message of an ended rank may still be in its socket.
                limit = Duration::ZERO;
                continue;
            }
            limit = TICK;
            // The check also runs without a newly ended rank, because ranks may begin to wait for a
            // rank that ended long ago.
            if let Some(mut failure) = self.judge_ends(&server) {
                if !options.recovery {
                    failure.message += "; ended the job";
                    return Ok(Some(failure));
                }
                if let Some(rank) = failure.rank {
                    server.lose(rank);
                }
                first = Some(match first {
                    Some(first) => Failure::before(first, failure),
                    None => failure,
                });
            }
            if self.ranks.iter().all(|rank| rank.end.is_some()) {
                return Ok(first);
            }
        }
    }

    /// Checks whether ranks have ended; true if a rank has ended since the last check.
    fn look(&mut self) -> io::Result<bool> {
        let mut ranks = self.ranks.iter_mut();
        ranks.try_fold(false, |ended, rank| Ok(rank.look()? | ended))
    }

    /// The failure that results from the ends of processes.
    fn judge_ends(&self, server: &Server) -> Option<Failure> {
        // If several ranks ended since the last check, the rank that a signal killed is the likely
        // cause of the others' exit codes.
        let of = |is_it: fn(&End) -> bool| {
            let mut ranks = self.ranks.iter();
            ranks.find(|rank| rank.end.as_ref().is_some_and(is_it))
        };
        let killed = of(|end| matches!(end, End::Signal(_)));
        let failed = of(|end| matches!(end, End::Exit(1..)));
        if let Some(rank) = killed.or(failed) {
            let end = rank.end?;
            return Some(Failure {
                code: end.code(),
                rank: Some(rank.number),
                message: format!("rank {} (process {}) {end}", rank.number, rank.pid()),
            });
        }
        let waiting = server.waiting();
        for rank in self.ranks.iter().filter(|rank| rank.end.is_some()) {
            let number = rank.number;
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
                message: format!("rank {number} (process {}) {reason}", rank.pid()),
            });
        }
        None
    }

    /// The processes of the job that have not ended: ranks, and processes whose parents ended.
    fn left(&mut self) -> Vec<i32> {
        // After an error the rank counts as running, until the launcher stops waiting for it.
        let _ = self.look();
        let running = self.ranks.iter().filter(|rank| rank.end.is_none());
        let mut left: Vec<i32> = running.map(Rank::pid).collect();
        left.extend(self.group.children());
        left
    }

    /// Ends the rest of the job: SIGTERM, then SIGKILL after `grace`. Waits for the rest of the ranks'
    /// output.
    pub(super) fn end(mut self, grace: Duration, interrupts: Option<&Interrupts>) -> Ended {
        let mut deadline = Instant::now() + grace;
        if !grace.is_zero() {
            self.group.signal(libc::SIGTERM);
            while Instant::now() < deadline && !self.left().is_empty() {
                std::thread::sleep(TICK);
            }
        }
        self.group.signal(libc::SIGKILL);
        deadline = Instant::now() + LAST;
        loop {
            let left = self.left();
            if left.is_empty() {
                break;
            }
            if Instant::now() >= deadline {
                tracing::error!("processes {left:?} do not end");
                break;
            }
            for pid in left {
                // SAFETY: the call takes no pointers; the process is a child that is not reaped
                // yet.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
            std::thread::sleep(TICK / 10);
        }
        let ranks = self.ranks.iter_mut();
        let taggers = ranks.flat_map(|rank| rank.taggers.drain(..)).collect();
        let signal = &mut self.signal;
        output::finish(taggers, || {
            *signal = signal.or_else(|| interrupts.and_then(Interrupts::take));
            signal.is_some()
        });
        let interruption = self.interruption();
        let of = |rank: &Rank| RankOutcome {
            rank: rank.number,
            pid: rank.pid(),
            end: rank.end,
        };
        let ranks = self.ranks.iter().map(of).collect();
        self.group.reap();
        Ended {
            interruption,
            ranks,
        }
    }

    /// The failure that results from a signal, if a signal ended the job.
    fn interruption(&self) -> Option<Failure> {
        let signal = self.signal?;
        Some(Failure {
            code: code_of_signal(signal),
            rank: None,
            message: format!("got {}; ended the job", rank::signal_name(signal)),
        })
    }
}

/// A job that has ended.
pub(super) struct Ended {
    /// The failure that results from a signal, if a signal ended the job.
    pub(super) interruption: Option<Failure>,
    pub(super) ranks: Vec<RankOutcome>,
}

/// The failure that results from the ranks' messages.
fn judge_events(
    events: Vec<Event>,
    server: &mut Server,
    options: &LaunchOptions,
) -> Option<Failure> {
    for event in events {
        match event {
            Event::Aborted {
                rank,
                code,
                message,
            } => {
                return Some(Failure {
                    // An abort is a failure even if its code is 0.
                    code: code.max(1),
                    rank: Some(rank),
                    message: format!(
                        "rank {rank} asked for the end of the job (code {code}): {message}"
                    ),
                });
            }
            // If the job continues, the process of the ended rank reports the reason.
            Event::Broken { rank, reason } if options.recovery => {
                tracing::warn!("rank {rank}: {reason}");
                server.lose(rank);
            }
            Event::Broken { rank, reason } => {
                return Some(Failure {
                    code: BROKEN_JOB,
                    rank: Some(rank),
                    message: format!("rank {rank}: {reason}; ended the job"),
                });
            }
        }
    }
    None
}
