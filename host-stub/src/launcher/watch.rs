//! The launcher's watch over a job: what happens to its ranks, what that means, and its end.

use std::time::{Duration, Instant};

use super::directory::Directory;
use super::guard::Guard;
use super::members::{Members, start_of};
use super::output;
use super::rank::{self, Rank, Spawn};
use super::server::{Event, Membership, Server};
use super::{
    BROKEN_JOB, End, Interrupts, LAST, LaunchError, LaunchOptions, RankOutcome, TICK,
    code_of_signal,
};
use crate::base::params::{SETTINGS_ENV, encode};

/// What ended a job before its ranks did.
pub(super) struct Failure {
    pub(super) code: u8,
    pub(super) rank: Option<u32>,
    pub(super) message: String,
}

impl Failure {
    /// Which of two failures tells more, this one being the earlier: a rank that left without a word says nothing of the
    /// cause, and the end of the process that caused it may come late, because its threads end one by one.
    fn before(self, later: Failure) -> Failure {
        match (self.code, later.code) {
            (BROKEN_JOB, code) if code != BROKEN_JOB => later,
            _ => self,
        }
    }
}

/// The ranks of a job and all processes that came of them.
pub(super) struct Watch {
    ranks: Vec<Rank>,
    members: Members,
    /// The signal that ended the job.
    signal: Option<i32>,
}

impl Watch {
    pub(super) fn new(job: &str) -> Self {
        Watch {
            ranks: Vec::new(),
            members: Members::new(job),
            signal: None,
        }
    }

    pub(super) fn members(&self) -> &Members {
        &self.members
    }

    /// Starts the ranks and serves them until all have ended well, or something failed.
    pub(super) fn run(
        &mut self,
        options: &LaunchOptions,
        limits: Option<libc::rlimit>,
        directory: &Directory,
        server: &mut Server,
        mut guard: Option<&mut Guard>,
    ) -> Result<Option<Failure>, LaunchError> {
        let settings = (SETTINGS_ENV, encode(&options.settings));
        for number in 0..options.ranks {
            let spawn = Spawn {
                options,
                limits,
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
        let mut first: Option<Failure> = None;
        loop {
            let interrupts = options.interrupts.as_ref();
            let events = server
                .poll(TICK, interrupts.map(Interrupts::descriptor))
                .map_err(LaunchError::Wait)?;
            let failure = self.judge_events(events, server, options, guard.as_deref_mut());
            if failure.is_some() {
                return Ok(failure);
            }
            self.signal = interrupts.and_then(Interrupts::take);
            if self.signal.is_some() {
                return Ok(self.interruption());
            }
            let mut ended = false;
            for rank in &mut self.ranks {
                ended |= rank.look().map_err(LaunchError::Wait)?;
            }
            if ended {
                // What an ended rank said last may still lie in its socket.
                let events = server
                    .poll(Duration::ZERO, None)
                    .map_err(LaunchError::Wait)?;
                let failure = self.judge_events(events, server, options, guard.as_deref_mut());
                if failure.is_some() {
                    return Ok(failure);
                }
            }
            // Also without a new end: ranks may begin to wait for one that ended long ago.
            if let Some(mut failure) = self.judge_ends(server) {
                if !options.recovery {
                    failure.message += "; ended the job";
                    return Ok(Some(failure));
                }
                if let Some(rank) = failure.rank {
                    server.lose(rank);
                }
                first = Some(match first {
                    Some(first) => first.before(failure),
                    None => failure,
                });
            }
            if self.ranks.iter().all(|rank| rank.end().is_some()) {
                return Ok(first);
            }
        }
    }

    fn judge_events(
        &mut self,
        events: Vec<Event>,
        server: &mut Server,
        options: &LaunchOptions,
        mut guard: Option<&mut Guard>,
    ) -> Option<Failure> {
        for event in events {
            match event {
                Event::Joined { pid, .. } => {
                    // A rank may be started through a shell, so this need not be the process
                    // that the launcher knows.
                    let start = start_of(pid);
                    if self.members.join(pid, start)
                        && let Some(guard) = guard.as_mut()
                    {
                        guard.join(pid, start);
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
                // What a rank that ended means is told by its process, if the job is to go on.
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
                message: format!("rank {} (process {}) {end}", rank.number(), rank.pid()),
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
                message: format!("rank {number} (process {}) {reason}", rank.pid()),
            });
        }
        None
    }

    /// Ends what is left of the job: SIGTERM, after `grace` SIGKILL. Waits for the rest of the ranks' output.
    pub(super) fn end(&mut self, grace: Duration, interrupts: Option<&Interrupts>) {
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
        let signal = &mut self.signal;
        output::finish(self.ranks.iter_mut().flat_map(Rank::taggers), || {
            *signal = signal.or_else(|| interrupts.and_then(Interrupts::take));
            signal.is_some()
        });
        for rank in &mut self.ranks {
            rank.reap();
        }
    }

    /// What a signal means for the job, if one ended it.
    pub(super) fn interruption(&self) -> Option<Failure> {
        let signal = self.signal?;
        Some(Failure {
            code: code_of_signal(signal),
            rank: None,
            message: format!("got {}; ended the job", rank::signal_name(signal)),
        })
    }

    pub(super) fn outcomes(&self) -> Vec<RankOutcome> {
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
