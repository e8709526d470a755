//! A window's view of its processes and the transport: progress, waits, and failures.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plugin_api::{ModuleFlags, Status};

use super::create::intent::Intent;
use super::error::{WinError, WinResult, refused};
use crate::base::process::Process;
use crate::door::{
    Completion, Context, Devices, Entered, Found, HOST, Location, Members, NotMet, Pace, Until,
    Waiter,
};
use crate::transport::{Failure, Transport};

/// One of this many synchronisation calls makes progress of the transport, although nothing is
/// outstanding.
const TURNS: u32 = 64;

/// The ranks of a window and their transport.
pub(super) struct Link {
    /// Synchronisation calls so far, roughly.
    pub(super) turns: AtomicU32,
    pub(super) context: Arc<Context>,
    /// The ranks of the window.
    pub(super) members: Members,
    pub(super) transport: Transport,
    /// See [`Waiter::others`].
    others: Option<Arc<AtomicUsize>>,
    pub(super) rank: usize,
    pub(super) size: usize,
    /// Whether accumulates to one target take effect in the order of their calls, so that none
    /// has to wait for an earlier one. With several contexts, threads use different paths to a
    /// target, and the paths do not keep the order of calls between threads.
    pub(super) ordered: bool,
    /// Whether the transport brings accumulates as commands. Otherwise only elements that its atomics serve can be changed.
    pub(super) applies: bool,
    /// Whether commands bring puts and gets of several runs to those ranks whose processors make small puts and gets.
    pub(super) scatters: bool,
    /// Whether the transport tries puts and gets with keys that may have ended.
    pub(super) checks_keys: bool,
    /// Other ranks of the window whose processes can be seen from here.
    watched: Box<[(usize, Process)]>,
    /// The time of the last check.
    looked: Mutex<Instant>,
}

/// The interval at which a wait checks whether the other processes still run.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl Link {
    pub(super) fn new(members: Members) -> Link {
        let context = Arc::clone(members.context());
        let transport = context.transport.clone();
        let attributes = transport.attributes();
        Link {
            turns: AtomicU32::new(0),
            rank: members.rank(),
            size: members.size(),
            ordered: attributes.flags.contains(ModuleFlags::ATOMICS_ORDERED)
                && attributes.contexts <= 1,
            applies: attributes.flags.contains(ModuleFlags::APPLIES),
            checks_keys: attributes.flags.contains(ModuleFlags::CHECKS_KEYS),
            scatters: attributes.flags.contains(ModuleFlags::SCATTERS),
            members,
            transport,
            others: context.waiter.others(),
            context,
            watched: Box::default(),
            looked: Mutex::new(Instant::now()),
        }
    }

    /// Checks the processes of these ranks from now on, in every wait: the ranks that the launcher started on this node.
    /// Equal spaces of process ids do not prove one node, because clones of a virtual machine have equal spaces.
    pub(super) fn watch(&mut self, intents: &[Intent]) {
        let Some(own) = intents.get(self.rank) else {
            return;
        };
        self.watched = intents
            .iter()
            .enumerate()
            .filter(|(rank, intent)| *rank != self.rank && intent.process.is_beside(&own.process))
            .filter(|(rank, _)| self.members.is_beside(*rank))
            .map(|(rank, intent)| (rank, intent.process))
            .collect();
    }

    /// The values that all ranks give first when a window is made, in the order of the ranks.
    /// Collective.
    pub(super) fn meet(&self, mine: &[u8]) -> WinResult<Vec<Vec<u8>>> {
        let all = self.members.meet(mine).map_err(|why| match why {
            NotMet::Refused { rank, reason } => refused(rank, reason),
            NotMet::Failed(reason) => self.unknown(reason),
        })?;
        self.of_each(all)
    }

    /// The values that all ranks give in a later exchange, in the order of the ranks. Collective.
    pub(super) fn exchange(&self, mine: &[u8]) -> WinResult<Vec<Vec<u8>>> {
        let all = self.members.allgather(mine);
        self.of_each(all.map_err(|reason| self.unknown(reason))?)
    }

    /// The error of an exchange that failed.
    #[cold]
    fn unknown(&self, reason: String) -> Box<WinError> {
        // The exchange may have succeeded at other ranks, which then make the window.
        self.context.arena.spoil();
        Box::new(WinError::Job {
            call: "window creation",
            reason,
        })
    }

    fn of_each(&self, all: Vec<Vec<u8>>) -> WinResult<Vec<Vec<u8>>> {
        if all.len() == self.size {
            return Ok(all);
        }
        let reason = format!("{} of {} ranks answered", all.len(), self.size);
        Err(refused(self.rank, reason))
    }

    /// Makes progress of the transport once; returns the number of completions.
    #[inline]
    pub(super) fn progress(&self, call: &'static str) -> WinResult<i32> {
        let count = match &self.others {
            Some(others) if others.load(Ordering::Relaxed) == 0 => self.transport.progress(),
            _ => self.context.waiter.progress(),
        };
        match count {
            count if count >= 0 => Ok(count),
            code => Err(self.progress_failed(call, code)),
        }
    }

    #[cold]
    fn progress_failed(&self, call: &'static str, code: i32) -> Box<WinError> {
        Box::new(WinError::Transport {
            call,
            rank: self.rank,
            status: Status(code),
        })
    }

    /// Counts a synchronisation call; returns whether this call need not check for failures.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        // Threads may overwrite each other's count, because the count need not be exact.
        let turn = self.turns.load(Ordering::Relaxed).wrapping_add(1);
        self.turns.store(turn, Ordering::Relaxed);
        !turn.is_multiple_of(TURNS) && self.context.failures.lost().is_none()
    }

    /// An error if `member`, or with `None` any member, is known to be lost. In shared memory, an
    /// operation on a dead rank's part does not fail by itself, as on a living rank's.
    #[inline]
    pub(super) fn check_lost(&self, call: &'static str, member: Option<usize>) -> WinResult<()> {
        if self.is_quiet() {
            return Ok(());
        }
        self.check_now(call, member)
    }

    /// [`check_lost`](Self::check_lost) after progress of the transport. Calls that never wait would
    /// never make progress, and lost ranks would not be found.
    #[cold]
    #[inline(never)]
    pub(super) fn check_now(&self, call: &'static str, member: Option<usize>) -> WinResult<()> {
        self.is_lost(call, member)?;
        self.progress(call)?;
        self.is_lost(call, member)
    }

    fn is_lost(&self, call: &'static str, member: Option<usize>) -> WinResult<()> {
        let lost = self.context.failures.lost_among(|proc| match member {
            Some(member) => self.is_process_of(member, proc),
            None => self.has_process(proc),
        });
        lost.map_or(Ok(()), |failure| Err(job_failed(call, &failure)))
    }

    fn is_process_of(&self, member: usize, proc: u64) -> bool {
        self.members.process(member) == proc
    }

    /// Whether a process of the job is a rank of the window.
    fn has_process(&self, proc: u64) -> bool {
        (0..self.size).any(|member| self.is_process_of(member, proc))
    }

    /// An error once the transport, or a rank of the window, has failed.
    #[cold]
    pub(super) fn check(&self, call: &'static str) -> WinResult<()> {
        if let Some(failure) = self
            .context
            .failures
            .any_among(|proc| self.has_process(proc))
        {
            return Err(job_failed(call, &failure));
        }
        if self.watched.is_empty() {
            return Ok(());
        }
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.elapsed() < LOOK_AGAIN {
            return Ok(());
        }
        *looked = Instant::now();
        self.find_gone(call, |_| true)
    }

    /// An error once the transport, or a member, has failed.
    #[cold]
    fn check_member(&self, call: &'static str, member: usize) -> WinResult<()> {
        let failures = &self.context.failures;
        let failed = failures.any_among(|proc| self.is_process_of(member, proc));
        match failed {
            Some(failure) => Err(job_failed(call, &failure)),
            // For one process every check looks: `looked` is the time of a check of all.
            None => self.find_gone(call, |rank| rank == member),
        }
    }

    /// An error if the process of a rank for which `concerns` is true is gone, as far as this
    /// process sees it.
    fn find_gone(&self, call: &'static str, concerns: impl Fn(usize) -> bool) -> WinResult<()> {
        let mut watched = self.watched.iter();
        match watched.find(|(rank, process)| concerns(*rank) && process.is_gone()) {
            None => Ok(()),
            Some((rank, process)) => Err(Box::new(WinError::Job {
                call,
                reason: format!("rank {rank} (process {}) is gone", process.pid),
            })),
        }
    }

    fn check_for(&self, call: &'static str, member: Option<usize>) -> WinResult<()> {
        match member {
            Some(member) => self.check_member(call, member),
            None => self.check(call),
        }
    }

    /// The steps of a loop that tries something again.
    #[inline]
    pub(super) fn tries(&self, call: &'static str) -> Tries<'_> {
        Tries {
            on: Looked {
                link: self,
                call,
                member: None,
                done: || false,
            },
            pace: Pace::default(),
        }
    }

    /// As [`tries`](Self::tries), for an operation on one member, which only the failure of this
    /// member ends.
    #[inline]
    pub(super) fn tries_of(&self, call: &'static str, member: usize) -> Tries<'_> {
        let mut tries = self.tries(call);
        tries.on.member = Some(member);
        tries
    }

    /// Waits until `done` returns true; any thread that makes progress may call it.
    #[inline]
    pub(super) fn wait_until(
        &self,
        call: &'static str,
        done: impl Fn() -> bool + Sync,
    ) -> WinResult<()> {
        self.wait_until_of(call, None, done)
    }

    /// As [`wait_until`](Self::wait_until). If a member is given, only the failure of this member ends the wait.
    #[inline]
    pub(super) fn wait_until_of(
        &self,
        call: &'static str,
        member: Option<usize>,
        done: impl Fn() -> bool + Sync,
    ) -> WinResult<()> {
        if done() {
            return Ok(());
        }
        self.waiter().wait(&Looked {
            link: self,
            call,
            member,
            done,
        })
    }

    /// Waits until a request is complete.
    #[inline]
    pub(super) fn wait_request(
        &self,
        call: &'static str,
        completion: &Completion,
    ) -> WinResult<()> {
        if completion.is_complete() {
            return Ok(());
        }
        let until = Looked {
            link: self,
            call,
            member: None,
            done: || completion.is_complete(),
        };
        self.waiter().wait_request(&until, completion)
    }

    /// The devices of this process; an error if the door knows of none.
    pub(super) fn devices(&self) -> Result<&dyn Devices, String> {
        let devices = self.context.devices.as_deref();
        devices.ok_or_else(|| "no device is known".to_owned())
    }

    /// The place of the memory itself: a host pointer that is mapped on a device is host memory all
    /// the same.
    pub(super) fn locate_itself(&self, value: u64, len: usize) -> Result<Location, String> {
        match &self.context.devices {
            Some(devices) => devices.locate_itself(value, len),
            None => Ok(Location {
                device: HOST,
                address: value,
            }),
        }
    }

    /// The place of a buffer: on a device, or at this address of the host.
    pub(super) fn find(&self, value: u64, len: usize) -> Result<Result<Found, u64>, String> {
        match &self.context.devices {
            Some(devices) => devices.find(value, len),
            None => Ok(Err(value)),
        }
    }

    /// The waiter, which waits and makes progress.
    #[inline]
    pub(super) fn waiter(&self) -> &dyn Waiter {
        self.context.waiter.as_ref()
    }

    /// Whether no call is watched.
    #[inline(always)]
    pub(super) fn enters_freely(&self) -> bool {
        self.context.watch.is_none()
    }

    /// Begins a call if it is allowed.
    #[inline(always)]
    pub(super) fn enter(&self, call: &'static str) -> WinResult<Option<Box<dyn Entered + '_>>> {
        match &self.context.watch {
            None => Ok(None),
            Some(watch) => watch.enter(call),
        }
    }

    /// Names the rank that a call accesses.
    #[inline]
    pub(super) fn about(&self, entered: &mut Option<Box<dyn Entered + '_>>, rank: usize) {
        if let Some(entered) = entered
            && rank < self.size
        {
            entered.about(self.members.process(rank));
        }
    }
}

fn job_failed(call: &'static str, failure: &Failure) -> Box<WinError> {
    Box::new(WinError::Job {
        call,
        reason: failure.to_string(),
    })
}

/// A wait of a window.
struct Looked<'a, F> {
    link: &'a Link,
    call: &'static str,
    /// The rank whose failure ends the wait; `None`: any rank of the window.
    member: Option<usize>,
    done: F,
}

impl<F: Fn() -> bool + Sync> Until for Looked<'_, F> {
    #[inline]
    fn is_done(&self) -> bool {
        (self.done)()
    }

    fn look(&self) -> WinResult<()> {
        self.link.check_for(self.call, self.member)
    }

    fn progress_failed(&self, code: i32) -> Box<WinError> {
        self.link.progress_failed(self.call, code)
    }
}

/// A loop that repeats a step, such as a post that found no room. The loop makes progress between
/// two tries, and ends if the transport or a rank has failed.
pub(super) struct Tries<'a> {
    on: Looked<'a, fn() -> bool>,
    pace: Pace,
}

impl Tries<'_> {
    /// One pass of the loop.
    #[inline]
    pub(super) fn step(&mut self) -> WinResult<()> {
        let Tries { on, pace } = self;
        on.link.waiter().step(pace, on)
    }

    /// Several passes: the pause between two tries to take a lock, longer with every try.
    pub(super) fn back_off(&mut self, tries: u32) -> WinResult<()> {
        for _ in 0..1u32 << tries.min(6) {
            self.step()?;
        }
        // The holder may be waiting for this processor.
        std::thread::yield_now();
        Ok(())
    }
}
