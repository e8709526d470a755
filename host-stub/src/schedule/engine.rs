//! The engine of a process: all its plans under way, over one mailbox.

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

/// A collective under way, by name. Ended by [`Engine::test`] or [`Engine::wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Ticket {
    pub(super) index: usize,
    pub(super) generation: u32,
}

/// A plan under way.
pub(super) struct Schedule {
    pub(super) call: &'static str,
    pub(super) plan: Plan,
    /// The next step.
    pub(super) next: usize,
    /// Sends and receives of this round that are not done.
    pub(super) outstanding: usize,
    /// The error that the call returns after its last step: this rank or another one could not copy its data from a device.
    /// The schedule still makes every send and receive, without data, because other ranks wait for them.
    pub(super) failed: Option<CommError>,
    pub(super) key: Key,
    pub(super) scope: Arc<Scope>,
    pub(super) outcome: Option<CommResult<()>>,
}

/// A place for a schedule.
#[derive(Default)]
pub(super) struct Place {
    pub(super) generation: u32,
    pub(super) schedule: Option<Schedule>,
}

/// Everything behind the engine's lock.
pub(super) struct State {
    pub(super) transport: Transport,
    pub(super) mailbox: Mailbox,
    pub(super) tracks: Tracks,
    /// By job rank.
    pub(super) queues: Vec<Queue>,
    pub(super) places: Vec<Place>,
    /// Schedules that are not done, in the order of their beginning.
    pub(super) running: Vec<usize>,
    pub(super) offers: Vec<Option<Offered>>,
    /// Offers made so far.
    pub(super) offered: u32,
    pub(super) fetches: Vec<Fetch>,
    plans: Vec<Plan>,
    /// Contexts of communicators that failed.
    pub(super) broken: Vec<u16>,
    /// Schedules that have ended.
    pub(super) ended: usize,
}

/// Runs collectives. Any thread may call.
pub(crate) struct Engine {
    state: Mutex<State>,
    /// As the state has it, for waiters: a waiter that sees another number looks for its outcome.
    ended: AtomicUsize,
    /// Whether the state counts itself in `busy`; changed with the state locked.
    active: AtomicBool,
    busy: Busy,
    /// When those that ask instead of waiting last looked at the other ranks.
    looked: Mutex<Instant>,
}

impl Engine {
    /// An engine over a connected mailbox of a job of `ranks` ranks.
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the collective of a scope that has this number on its plane, with the steps that `build` adds. One that has `failed`
    /// sends no data.
    ///
    /// # Safety
    /// The buffers in the steps stay, and are left alone, until the collective is done.
    pub(crate) unsafe fn start(
        &self,
        call: &'static str,
        scope: &Arc<Scope>,
        (plane, sequence): (Plane, u32),
        failed: Option<CommError>,
        build: impl FnOnce(&mut Plan),
    ) -> CommResult<Ticket> {
        let mut state = self.lock();
        // Under the lock: another thread may break the scope off, which ends what is running there.
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

    /// Lets go of the lock after changes, and tells those who look without it.
    fn release(&self, state: MutexGuard<'_, State>) {
        let active = state.is_active();
        if self.active.swap(active, Ordering::Relaxed) != active {
            self.busy.set(active);
        }
        // Release: pairs with the Acquire of who waits, whose buffers are as the end left them.
        self.ended.store(state.ended, Ordering::Release);
    }

    /// The outcome of a collective that is done, once; its ticket ends with that.
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
            // Before the look: what ends after it changes the count.
            let ended = self.ended.load(Ordering::Acquire);
            if let Some(outcome) = self.test(ticket) {
                self.send_last(job);
                return outcome;
            }
            self.wait_until(job, || self.ended.load(Ordering::Acquire) != ended);
        }
    }

    /// Has the last messages of a collective leave that is done here: other ranks wait for them, and this one may make no progress
    /// for long.
    pub(crate) fn send_last(&self, job: &Job) {
        // A failure is found by the next wait.
        let _ = job.runtime().engine().progress();
    }

    /// Waits as the job's mode says, and looks after the ranks meanwhile.
    pub(crate) fn wait_until(&self, job: &Job, is_over: impl Fn() -> bool + Sync) {
        let wait = Wait {
            engine: self,
            job,
            is_over,
            looked: Mutex::new(Instant::now()),
        };
        while job.runtime().engine().wait(&wait).is_err() {
            // The transport failed; what waits for ranks that are gone ends by this.
            self.look(job);
            std::thread::yield_now();
        }
    }

    /// For a wait outside of the engine: an error once a rank of a scope is gone or cannot go on there. The scope can then
    /// no longer be used.
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

    /// Sees whether the ranks that collectives wait for are still there and go on, and ends those that wait
    /// for one that does not.
    #[cold]
    pub(crate) fn look(&self, job: &Job) {
        // Nobody waits outside, so nothing fails.
        let _ = self.look_for(&|scope| concerned(job, scope), None);
    }

    /// The same for those that ask again and again instead of waiting: at intervals.
    pub(crate) fn look_sometimes(&self, job: &Job) {
        if is_due(&self.looked) {
            self.look(job);
        }
    }

    /// Both, with what the job reports of a scope.
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

    /// Closes a scope: this rank cannot go on in a collective of the scope, and tells its other
    /// ranks.
    #[cold]
    pub(crate) fn break_off(&self, scope: &Arc<Scope>, reason: &str) {
        let mut state = self.lock();
        state.break_off(scope, reason, None);
        self.release(state);
    }
}

#[cfg(test)]
impl Engine {
    /// Messages that came before anybody waited for them.
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
            // Another thread is at it.
            Err(TryLockError::WouldBlock) => return false,
        };
        let moved = state.is_active() && state.advance();
        self.release(state);
        moved
    }
}

/// Time between two looks at the other ranks.
const LOOK: Duration = Duration::from_millis(250);

/// Whether it is time for another look; then this one counts.
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
    /// Whether there is something to advance. A message may find room only after the schedule that caused it has
    /// ended, and its receiver waits for it.
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

    /// Gives the place of a schedule back.
    pub(super) fn vacate(&mut self, index: usize) {
        let place = &mut self.places[index];
        place.generation = place.generation.wrapping_add(1);
        if let Some(mut schedule) = place.schedule.take() {
            schedule.plan.end();
            self.plans.push(schedule.plan);
        }
    }

    /// The schedule at a place that is running.
    pub(super) fn schedule(&mut self, index: usize) -> Option<&mut Schedule> {
        self.places.get_mut(index)?.schedule.as_mut()
    }
}
