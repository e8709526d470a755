//! The engine of a process: all its running plans, over one mailbox.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::ends::{Concern, Waiter, concerned};
use super::error::{CommError, CommResult};
use super::fetch::{Fetch, Offered};
use super::matching::{Key, Queue};
use super::plan::Plan;
use super::scope::{Plane, Scope};
use crate::crt::{Blocking, Busy, Source};
use crate::job::Job;
use crate::loader::Transport;
use crate::mailbox::{Mailbox, Tracks};

/// The identifier of a running collective. [`Engine::test`] or [`Engine::wait`] ends the ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Ticket {
    pub(super) index: usize,
    pub(super) generation: u32,
}

/// A running plan.
pub(super) struct Schedule {
    pub(super) call: &'static str,
    pub(super) plan: Plan,
    /// The index of the next step.
    pub(super) next: usize,
    /// The number of incomplete sends and receives of this round.
    pub(super) outstanding: usize,
    /// The error that the call returns after its last step: this rank or another one could not copy its data from a device.
    /// The schedule still makes every send and receive, without data, because other ranks wait for them.
    pub(super) failed: Option<CommError>,
    pub(super) key: Key,
    pub(super) scope: Arc<Scope>,
    pub(super) outcome: Option<CommResult<()>>,
}

/// A place for a schedule, which is reused.
#[derive(Default)]
pub(super) struct Place {
    pub(super) generation: u32,
    pub(super) schedule: Option<Schedule>,
}

/// The data behind the engine's lock.
pub(super) struct State {
    pub(super) transport: Transport,
    pub(super) mailbox: Mailbox,
    pub(super) tracks: Tracks,
    /// The queues, indexed by job rank.
    pub(super) queues: Vec<Queue>,
    pub(super) places: Vec<Place>,
    /// Running schedules, in the order of their beginning.
    pub(super) running: Vec<usize>,
    pub(super) offers: Vec<Option<Offered>>,
    /// The number of offers so far.
    pub(super) offered: u32,
    pub(super) fetches: Vec<Fetch>,
    plans: Vec<Plan>,
    /// Contexts of failed communicators.
    pub(super) broken: Vec<u16>,
    /// The number of schedules that have ended.
    pub(super) ended: usize,
}

/// Runs collectives. Any thread may call.
pub(crate) struct Engine {
    state: Mutex<State>,
    /// A copy of `State::ended` for waiters: a waiter that sees a new number checks for its
    /// outcome.
    ended: AtomicUsize,
    /// Whether the engine counts itself in `busy`; changed under the lock of the state.
    active: AtomicBool,
    busy: Busy,
    /// The time when [`look_sometimes`](Self::look_sometimes) last checked the other ranks.
    looked: Mutex<Instant>,
}

impl Engine {
    /// Makes an engine over a connected mailbox of a job of `ranks` ranks.
    pub(crate) fn new(
        transport: &Transport,
        mailbox: Mailbox,
        ranks: usize,
        busy: &Busy,
    ) -> Engine {
        Engine {
            state: Mutex::new(State {
                transport: transport.clone(),
                mailbox,
                tracks: Tracks::default(),
                queues: (0..ranks).map(|_| Queue::default()).collect(),
                places: Vec::new(),
                running: Vec::new(),
                offers: Vec::new(),
                offered: 0,
                fetches: Vec::new(),
                plans: Vec::new(),
                broken: Vec::new(),
                ended: 0,
            }),
            ended: AtomicUsize::new(0),
            active: AtomicBool::new(false),
            busy: busy.clone(),
            looked: Mutex::new(Instant::now()),
        }
    }

    /// States that every rank has left the job, so that none reaches the mailbox any more.
    pub(crate) fn every_rank_left(&self) {
        self.lock().mailbox.every_rank_left();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a collective of a scope with the given number on its plane, and the steps that `build` adds. A collective
    /// with `failed` sends no data.
    ///
    /// # Safety
    /// The caller keeps the buffers in the steps, and does not access them, until the collective is done.
    pub(crate) unsafe fn start(
        &self,
        call: &'static str,
        scope: &Arc<Scope>,
        (plane, sequence): (Plane, u32),
        failed: Option<CommError>,
        build: impl FnOnce(&mut Plan),
    ) -> CommResult<Ticket> {
        let mut state = self.lock();
        // The check is under the lock, because another thread may break the scope off, which ends
        // its running collectives.
        if let Some(reason) = scope.broken() {
            let reason = reason.to_owned();
            return Err(CommError::Broken { call, reason });
        }
        let mut plan = state.plans.pop().unwrap_or_default();
        plan.begin(scope);
        build(&mut plan);
        scope.enter();
        let schedule = Schedule {
            call,
            plan,
            next: 0,
            outstanding: 0,
            failed,
            key: Key {
                context: scope.tag(plane),
                sequence,
            },
            scope: Arc::clone(scope),
            outcome: None,
        };
        let index = match state.places.iter().position(|p| p.schedule.is_none()) {
            Some(index) => index,
            None => {
                state.places.push(Place::default());
                state.places.len() - 1
            }
        };
        let place = &mut state.places[index];
        place.schedule = Some(schedule);
        let generation = place.generation;
        state.running.push(index);
        state.advance();
        self.release(state);
        Ok(Ticket { index, generation })
    }

    /// Releases the lock after changes, and publishes the changes to threads that read without the
    /// lock.
    fn release(&self, state: MutexGuard<'_, State>) {
        let active = state.is_active();
        if self.active.swap(active, Ordering::Relaxed) != active {
            self.busy.set(active);
        }
        // Release pairs with the Acquire in `wait`: the waiter then sees its buffers.
        self.ended.store(state.ended, Ordering::Release);
    }

    /// Takes the outcome of a collective that is done; the ticket is then invalid.
    pub(crate) fn test(&self, ticket: Ticket) -> Option<CommResult<()>> {
        let mut state = self.lock();
        let runs = state.running.contains(&ticket.index);
        if runs {
            state.advance();
        }
        let outcome = state.take_outcome(ticket);
        if runs {
            self.release(state);
        }
        outcome
    }

    /// Waits for a collective.
    pub(crate) fn wait(&self, job: &Job, ticket: Ticket) -> CommResult<()> {
        loop {
            // The load precedes the test: a collective that ends after the test changes the count.
            let ended = self.ended.load(Ordering::Acquire);
            if let Some(outcome) = self.test(ticket) {
                self.send_last(job);
                return outcome;
            }
            self.wait_until(job, || self.ended.load(Ordering::Acquire) != ended);
        }
    }

    /// Sends the remaining messages of a collective that is done here, because other ranks wait for them and this rank may
    /// make no progress for long.
    pub(crate) fn send_last(&self, job: &Job) {
        // The next wait reports a failure.
        let _ = job.runtime().engine().progress();
    }

    /// Waits in the job's mode, and checks the other ranks meanwhile.
    pub(crate) fn wait_until(&self, job: &Job, is_over: impl Fn() -> bool + Sync) {
        let wait = Wait {
            engine: self,
            job,
            is_over,
            looked: Mutex::new(Instant::now()),
        };
        while job.runtime().engine().wait(&wait).is_err() {
            // The transport failed; the look ends the waits for dead ranks.
            self.look(job);
            std::thread::yield_now();
        }
    }

    /// Checks a scope for a wait outside of the engine: an error if a rank of the scope is dead or has given up. After an
    /// error, the scope can no longer be used.
    #[cold]
    pub(crate) fn check(
        &self,
        call: &'static str,
        job: &Job,
        scope: &Arc<Scope>,
    ) -> CommResult<()> {
        if let Some(reason) = scope.broken() {
            let reason = reason.to_owned();
            return Err(CommError::Broken { call, reason });
        }
        self.look_for(&|scope| concerned(job, scope), Some((call, scope)))
    }

    /// Checks the ranks that collectives wait for, and ends the collectives that wait for a dead rank or a
    /// rank that has given up.
    #[cold]
    pub(crate) fn look(&self, job: &Job) {
        // No call waits outside, so the look returns no error.
        let _ = self.look_for(&|scope| concerned(job, scope), None);
    }

    /// The same check at intervals, for callers that test repeatedly instead of waiting.
    pub(crate) fn look_sometimes(&self, job: &Job) {
        if is_due(&self.looked) {
            self.look(job);
        }
    }

    /// The common part of `look` and `check`; `concerned` returns the failure that the job reports
    /// about a scope.
    pub(super) fn look_for(
        &self,
        concerned: &dyn Fn(&Scope) -> Option<Concern>,
        waiter: Option<Waiter<'_>>,
    ) -> CommResult<()> {
        let mut state = self.lock();
        let looked = state.look(concerned, waiter);
        self.release(state);
        looked
    }

    /// Closes a scope in which this rank cannot go on, and notifies its other ranks.
    #[cold]
    pub(crate) fn break_off(&self, scope: &Arc<Scope>, reason: &str) {
        let mut state = self.lock();
        state.break_off(scope, reason, None);
        self.release(state);
    }
}

#[cfg(test)]
impl Engine {
    /// The number of messages that came before their receives.
    pub(super) fn kept(&self) -> usize {
        self.lock()
            .queues
            .iter()
            .map(|queue| queue.early.len())
            .sum()
    }
}

impl Source for Engine {
    fn progress(&self) -> bool {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another thread is advancing the engine.
            Err(TryLockError::WouldBlock) => return false,
        };
        let moved = state.is_active() && state.advance();
        self.release(state);
        moved
    }
}

/// Time between two checks of the other ranks.
const LOOK: Duration = Duration::from_millis(250);

/// Whether the next check is due; if so, records the check's time.
fn is_due(looked: &Mutex<Instant>) -> bool {
    let mut looked = looked.lock().unwrap_or_else(PoisonError::into_inner);
    let is_due = looked.elapsed() >= LOOK;
    if is_due {
        *looked = Instant::now();
    }
    is_due
}

/// A wait for collectives.
struct Wait<'a, F> {
    engine: &'a Engine,
    job: &'a Job,
    is_over: F,
    looked: Mutex<Instant>,
}

impl<F: Fn() -> bool + Sync> Blocking for Wait<'_, F> {
    type Error = i32;

    fn is_done(&self) -> bool {
        (self.is_over)()
    }

    fn look(&self) -> Result<(), i32> {
        if is_due(&self.looked) {
            self.engine.look(self.job);
        }
        Ok(())
    }

    fn progress_failed(&self, code: i32) -> i32 {
        code
    }
}

impl State {
    /// Whether the engine has work. A message may be sent only after the end of its schedule, when there is
    /// room, and its receiver waits for it.
    fn is_active(&self) -> bool {
        !self.running.is_empty() || self.queues.iter().any(|queue| !queue.outgoing.is_empty())
    }

    fn take_outcome(&mut self, ticket: Ticket) -> Option<CommResult<()>> {
        let place = self.places.get_mut(ticket.index)?;
        if place.generation != ticket.generation {
            return Some(Ok(()));
        }
        let outcome = place.schedule.as_mut()?.outcome.take()?;
        self.vacate(ticket.index);
        Some(outcome)
    }

    /// Frees the place of a schedule.
    pub(super) fn vacate(&mut self, index: usize) {
        let place = &mut self.places[index];
        place.generation = place.generation.wrapping_add(1);
        if let Some(mut schedule) = place.schedule.take() {
            schedule.plan.end();
            self.plans.push(schedule.plan);
        }
    }

    /// The running schedule at a place.
    pub(super) fn schedule(&mut self, index: usize) -> Option<&mut Schedule> {
        self.places.get_mut(index)?.schedule.as_mut()
    }
}
