//! The one way to wait: every blocking call of the host comes here.
//!
//! The mode selects the behaviour of a wait. *Master*: makes progress until the wait is over. *Thread*: the same, for all
//! waiters, if the progress token is free; otherwise spins for a moment and sleeps until the holder of the token signals
//! ([`super::wait_queue`]). *Task*: is suspended, or lets other tasks run between its checks, as the hooks of its runtime
//! allow; without hooks, and outside of tasks, it waits as a thread. A wait for shared memory checks the memory
//! first, in every mode.

use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::time::Duration;

use osc_engine::door::{Attached, Completion, Pace};

use super::completion::{attach_own, detach_own, signals};
use super::cond::{Begun, Cond, Misuse};
use super::engine::{Blocking, Engine, SPIN_MIN, Until};
use super::hooks::running_task;
use super::mode::Mode;
use super::pace::NearPace;
use super::wait_queue::Waiter;
use super::watched::is_watched;

/// Time between two checks of the job.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// The longest spin before a thread sleeps, in visits.
const SPIN_MAX: u32 = 1 << 12;
/// The first reads of shared memory, before any progress. These reads take some microseconds, in which a
/// rank on another processor answers. The number is small if the other rank may need this
/// processor.
const GLANCES: u32 = 256;
const GLANCES_OVERSUBSCRIBED: u32 = 2;
/// Reads of shared memory between two progress calls.
const PROGRESS: u32 = 32;

/// Time between two tries of a wait for a signal while the transport fails.
const AGAIN: Duration = Duration::from_millis(1);

impl Engine {
    /// Waits until `what` is done.
    #[inline]
    pub fn wait<B: Blocking>(&self, what: &B) -> Result<(), B::Error> {
        if what.is_done() {
            return Ok(());
        }
        if B::NEAR && self.comes_at_once(what) {
            return Ok(());
        }
        match self.mode {
            Mode::Master => self.drive_until(what, || what.is_done()),
            Mode::Thread => self.wait_as_thread(what, None),
            Mode::Task => self.wait_as_task(what, None),
        }
    }

    /// Waits for a request. If the waiter sleeps, its condition is attached to the request.
    #[inline]
    pub(crate) fn wait_request<B: Blocking>(
        &self,
        what: &B,
        completion: &Completion,
    ) -> Result<(), B::Error> {
        if what.is_done() {
            return Ok(());
        }
        match self.mode {
            Mode::Master => self.drive_until(what, || what.is_done()),
            Mode::Thread => self.wait_as_thread(what, Some(completion)),
            Mode::Task => self.wait_as_task(what, Some(completion)),
        }
    }

    /// Reads shared memory for as long as another processor takes to write there.
    #[inline]
    fn comes_at_once<B: Blocking>(&self, what: &B) -> bool {
        let visits = if self.oversubscribed {
            GLANCES_OVERSUBSCRIBED
        } else {
            GLANCES
        };
        (0..visits).any(|_| {
            std::hint::spin_loop();
            what.is_done()
        })
    }

    /// A loop of progress calls.
    #[inline]
    pub(super) fn drive_until<B: Blocking>(
        &self,
        what: &B,
        is_over: impl FnMut() -> bool,
    ) -> Result<(), B::Error> {
        if B::NEAR {
            self.drive_near(what, is_over)
        } else {
            self.drive_far(what, is_over)
        }
    }

    /// A loop of reads of shared memory. The loop makes progress now and then, which other threads
    /// or peers may need, and at every read if other threads of this process wait.
    fn drive_near<B: Blocking>(
        &self,
        what: &B,
        mut is_over: impl FnMut() -> bool,
    ) -> Result<(), B::Error> {
        let mut pace = NearPace::new(self.oversubscribed);
        let mut visits = 0u32;
        while !is_over() {
            visits = visits.wrapping_add(1);
            if visits.is_multiple_of(PROGRESS) || pace.naps() || self.queue.is_waiting() {
                let completed = self.drive();
                if completed < 0 {
                    return Err(what.progress_failed(completed));
                }
                if completed > 0 && pace.served() {
                    what.look()?;
                }
            }
            if pace.after() {
                what.look()?;
            }
        }
        Ok(())
    }

    #[inline]
    fn drive_far<B: Blocking>(
        &self,
        what: &B,
        mut is_over: impl FnMut() -> bool,
    ) -> Result<(), B::Error> {
        let mut pace = Pace::default();
        while !is_over() {
            let completed = self.drive();
            if completed < 0 {
                return Err(what.progress_failed(completed));
            }
            // The check precedes the pause, because this visit may have ended the wait.
            if completed > 0 && is_over() {
                break;
            }
            if pace.after(completed > 0, self.oversubscribed) {
                what.look()?;
            }
        }
        Ok(())
    }

    /// A wait inside a check whether another wait is over. This thread may hold the progress token or the lock of the
    /// queue, so it neither signals waiters nor sleeps.
    #[cold]
    pub(super) fn drive_alone<B: Blocking>(&self, what: &B) -> Result<(), B::Error> {
        let mut pace = Pace::default();
        while !what.is_done() {
            let completed = self.progress();
            if completed < 0 {
                return Err(what.progress_failed(completed));
            }
            if pace.after(completed > 0, self.oversubscribed) {
                what.look()?;
            }
        }
        Ok(())
    }

    /// Spins, and makes progress if no other thread does. True if the wait is over.
    #[inline]
    fn spin<B: Blocking>(&self, what: &B) -> Result<bool, B::Error> {
        let limit = self.spin.load(Ordering::Relaxed);
        // With a progress thread, the thread that makes progress also sleeps after a while.
        let drives = !self.has_progress_thread();
        let mut visits = 0;
        while visits < limit {
            if what.is_done() {
                self.spin_was(true, limit);
                return Ok(true);
            }
            if let Some(_token) = self.queue.try_take() {
                if drives {
                    return self.drive_until(what, || what.is_done()).map(|()| true);
                }
                while visits < limit {
                    let completed = self.drive();
                    if completed < 0 {
                        return Err(what.progress_failed(completed));
                    }
                    if what.is_done() {
                        self.spin_was(true, limit);
                        return Ok(true);
                    }
                    visits += 1;
                }
                break;
            }
            if !drives {
                self.queue.want();
            }
            std::hint::spin_loop();
            visits += 1;
        }
        self.spin_was(false, limit);
        Ok(false)
    }

    /// Lengthens the spin if it succeeded, and shortens the spin otherwise.
    fn spin_was(&self, useful: bool, limit: u32) {
        let next = if useful {
            limit + limit / 4
        } else {
            limit - limit / 4
        };
        // A lost update does no harm.
        self.spin
            .store(next.clamp(SPIN_MIN, SPIN_MAX), Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn wait_as_thread<B: Blocking>(
        &self,
        what: &B,
        completion: Option<&Completion>,
    ) -> Result<(), B::Error> {
        if is_watched() {
            return self.drive_alone(what);
        }
        if self.spin(what)? {
            return Ok(());
        }
        self.sleep_as_thread(what, completion)
    }

    #[inline(never)]
    fn sleep_as_thread<B: Blocking>(
        &self,
        what: &B,
        completion: Option<&Completion>,
    ) -> Result<(), B::Error> {
        self.with_waiter(what, completion, None, |waiter| {
            self.sleep_in_queue(what, waiter)
        })
    }

    fn sleep_in_queue<B: Blocking>(&self, what: &B, waiter: &Waiter<'_>) -> Result<(), B::Error> {
        self.queue.sleep(
            waiter,
            Some(LOOK),
            || self.drive_until(what, || waiter.is_over()),
            || self.look(what),
        )
    }

    /// Runs a wait with a waiter in the queue. The request signals the waiter if a condition can be attached;
    /// otherwise the holder of the token does. `task` is the waiting task; `None` if a thread waits.
    pub(super) fn with_waiter<B: Blocking>(
        &self,
        what: &B,
        completion: Option<&Completion>,
        task: Option<*mut c_void>,
        run: impl FnOnce(&Waiter<'_>) -> Result<(), B::Error>,
    ) -> Result<(), B::Error> {
        let (cond, watch) = (Cond::new(), || what.is_done());
        // A new condition accepts the wait.
        let Ok(Begun::Waiting(signal)) = cond.begin(task.is_some()) else {
            return self.drive_until(what, watch);
        };
        if let Some(task) = task {
            cond.name_task(signal, task);
        }
        // Dropped after the entry in the queue: a task leaves when no thread is about to resume it.
        let _settled = Settled(&cond);
        let mut waiter = Waiter {
            cond: &cond,
            signal,
            watch: None,
        };
        if let Some(completion) = completion {
            let listener = signals(&cond);
            // SAFETY: the condition is signalled, or detached below, before it is dropped.
            match unsafe { attach_own(completion, &cond, &listener) } {
                Some(Attached::Complete) => return Ok(()),
                Some(Attached::Later) => {
                    let outcome = run(&waiter);
                    if outcome.is_err() && !detach_own(completion, &cond, &listener) {
                        // The request is signalling the condition now.
                        while cond.is_attached() {
                            std::thread::yield_now();
                        }
                    }
                    return outcome;
                }
                // The program has attached its own condition or event.
                None => {}
            }
        }
        waiter.watch = Some(&watch);
        run(&waiter)
    }

    /// The wait of `crt_wait`: takes a signal that has come, or waits for the signal in the mode of
    /// the job.
    pub(super) fn wait_cond(&self, cond: &Cond) -> Result<(), Misuse> {
        let watched = is_watched();
        let task = match self.mode {
            Mode::Task if self.has_progress_thread() && !watched => {
                running_task().filter(|(tasks, _)| tasks.can_suspend())
            }
            _ => None,
        };
        let Begun::Waiting(signal) = cond.begin(task.is_some())? else {
            return Ok(());
        };
        let what = Until(|| cond.has_come(signal));
        let waiter = Waiter {
            cond,
            signal,
            watch: None,
        };
        if let Some((_, task)) = &task {
            cond.name_task(signal, *task);
        }
        // A failed transport may make progress again, and others may still signal, so the wait
        // continues.
        while !what.is_done() {
            let outcome = match (self.mode, &task) {
                _ if watched => self.drive_alone(&what),
                (_, Some((tasks, task))) => self.suspend_in_queue(&what, &waiter, tasks, *task),
                (Mode::Master, None) => self.drive_until(&what, || what.is_done()),
                (Mode::Task, None)
                    if running_task().is_some_and(|(tasks, _)| tasks.can_yield()) =>
                {
                    self.wait_as_task(&what, None)
                }
                _ => match self.spin(&what) {
                    Ok(false) => self.sleep_in_queue(&what, &waiter),
                    over => over.map(drop),
                },
            };
            if outcome.is_err() && task.is_none() {
                cond.sleep(signal, Some(AGAIN));
            }
        }
        cond.settle();
        Ok(())
    }
}

/// Settles the condition when the wait ends on any path.
struct Settled<'a>(&'a Cond);

impl Drop for Settled<'_> {
    fn drop(&mut self) {
        self.0.settle();
    }
}
