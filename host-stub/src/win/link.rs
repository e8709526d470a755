//! A window's view of the job and its transport: progress, waiting, and noticing failure.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plugin_api::{ModuleFlags, Status};

use super::error::{WinError, WinResult};
use super::intent::Intent;
use super::members::Members;
use crate::job::Job;
use crate::loader::Transport;
use crate::process::Process;

/// Visits of a wait loop in which nothing completes before it yields the processor at each. Long
/// enough for a peer that runs on another core to answer, short against a time slice, because the
/// peer may need this core.
const SPINS: u32 = 32;
/// Yields in vain before a wait loop sleeps between its visits, where processes outnumber
/// processors: what it waits for may be a thread that yielding alone does not let run for long.
const YIELDS: u32 = 16;
/// How long it sleeps; the system's timers make that some 50 microseconds.
const NAP: Duration = Duration::from_micros(1);
/// Visits of a wait loop between two looks at the job.
const LOOKS: u32 = 1024;

/// The job and its transport.
pub(super) struct Link {
    pub(super) job: Arc<Job>,
    /// The ranks of the window.
    pub(super) members: Members,
    pub(super) transport: Transport,
    pub(super) rank: usize,
    pub(super) size: usize,
    /// Whether accumulates to one target take effect in the order of their calls, so that none
    /// has to wait for an earlier one. With several contexts threads use different paths to a
    /// target, and calls that are ordered between threads would not be on the way.
    pub(super) ordered: bool,
    /// Whether this node has more ranks than processors.
    pub(super) crowded: bool,
    /// Other ranks of the window whose processes can be seen from here.
    watched: Box<[(usize, Process)]>,
    /// When they were last looked for.
    looked: Mutex<Instant>,
}

/// How often a wait looks whether the other processes still run.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Whether the node of this rank has more ranks than processors.
fn is_crowded(job: &Job) -> bool {
    let bootstrap = job.bootstrap();
    let here = bootstrap.node(job.rank());
    let ranks = (0..job.size())
        .filter(|rank| bootstrap.node(*rank) == here)
        .count();
    std::thread::available_parallelism().is_ok_and(|processors| ranks > processors.get())
}

impl Link {
    pub(super) fn new(members: Members) -> Link {
        let job = Arc::clone(members.job());
        let transport = job.transport().clone();
        let attributes = transport.attributes();
        Link {
            rank: members.rank(),
            size: members.size(),
            ordered: attributes.flags.contains(ModuleFlags::ATOMICS_ORDERED)
                && attributes.contexts <= 1,
            crowded: is_crowded(&job),
            members,
            transport,
            job,
            watched: Box::default(),
            looked: Mutex::new(Instant::now()),
        }
    }

    /// Looks after the processes of these ranks from now on, in every wait.
    pub(super) fn watch(&mut self, intents: &[Intent]) {
        let Some(own) = intents.get(self.rank) else {
            return;
        };
        self.watched = intents
            .iter()
            .enumerate()
            .filter(|(rank, intent)| *rank != self.rank && intent.process.is_beside(&own.process))
            .map(|(rank, intent)| (rank, intent.process))
            .collect();
    }

    /// Progresses the transport once; returns how much completed.
    #[inline]
    pub(super) fn progress(&self, call: &'static str) -> WinResult<i32> {
        match self.transport.progress() {
            count if count >= 0 => Ok(count),
            code => Err(self.progress_failed(call, code)),
        }
    }

    #[cold]
    fn progress_failed(&self, call: &'static str, code: i32) -> WinError {
        WinError::Transport {
            call,
            rank: self.rank,
            status: Status(code),
        }
    }

    /// An error once the job has failed.
    #[cold]
    pub(super) fn check(&self, call: &'static str) -> WinResult<()> {
        if let Some(failure) = self.job.failed() {
            return Err(WinError::Job {
                call,
                reason: failure.to_string(),
            });
        }
        if self.watched.is_empty() {
            return Ok(());
        }
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.elapsed() < LOOK_AGAIN {
            return Ok(());
        }
        *looked = Instant::now();
        match self.watched.iter().find(|(_, process)| process.is_gone()) {
            None => Ok(()),
            Some((rank, process)) => Err(WinError::Job {
                call,
                reason: format!("rank {rank} (process {}) is gone", process.pid),
            }),
        }
    }

    /// The steps of a wait loop.
    #[inline]
    pub(super) fn waiter(&self, call: &'static str) -> Waiter<'_> {
        Waiter {
            link: self,
            call,
            idle: 0,
            visits: 0,
        }
    }

    /// Waits until `done` says so.
    #[inline]
    pub(super) fn wait_until(
        &self,
        call: &'static str,
        mut done: impl FnMut() -> bool,
    ) -> WinResult<()> {
        let mut waiter = self.waiter(call);
        while !done() {
            waiter.step()?;
        }
        Ok(())
    }
}

/// A wait loop's body: progress, yield, and an end when the job has failed.
pub(super) struct Waiter<'a> {
    link: &'a Link,
    call: &'static str,
    idle: u32,
    visits: u32,
}

impl Waiter<'_> {
    /// One visit.
    #[inline]
    pub(super) fn step(&mut self) -> WinResult<()> {
        if self.link.progress(self.call)? > 0 {
            self.idle = 0;
        } else {
            self.idle = self.idle.saturating_add(1);
        }
        self.visits = self.visits.wrapping_add(1);
        if self.idle <= SPINS {
            std::hint::spin_loop();
        } else if self.idle <= SPINS + YIELDS || !self.link.crowded {
            std::thread::yield_now();
        } else {
            std::thread::sleep(NAP);
        }
        if self.visits.is_multiple_of(LOOKS) {
            self.link.check(self.call)?;
        }
        Ok(())
    }

    /// Several visits: the pause between two tries to take a lock, longer with every try.
    pub(super) fn back_off(&mut self, tries: u32) -> WinResult<()> {
        for _ in 0..1u32 << tries.min(6) {
            self.step()?;
        }
        // The holder may be waiting for this processor.
        std::thread::yield_now();
        Ok(())
    }
}
