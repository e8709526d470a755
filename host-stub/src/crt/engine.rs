//! The one way to wait: every blocking call of the host comes here.
//!
//! What waiting is depends on the mode. A *master* makes progress until it is done. A *thread* does so
//! too if nobody else does, and then for all that wait; otherwise it spins for a moment and sleeps
//! until whoever makes progress tells it ([`super::line`]). A *task* is suspended, or lets
//! other tasks run between its looks, as its runtime's hooks allow; without hooks, and outside of
//! tasks, it waits as a thread.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::completion::{Attached, Completion};
use super::cond::{Begun, Cond, Misuse, Signal};
use super::hooks::{Tasks, running_task};
use super::line::{Line, Sleeper};
use super::mode::Mode;
use super::pace::Pace;
use crate::loader::Transport;
use plugin_api::Stats;

/// Something that is waited for.
pub trait Blocking: Sync {
    /// What ends the wait early.
    type Error;

    /// Whether the wait is over. Asked by any thread that makes progress, often: quick, and never blocks.
    fn is_done(&self) -> bool;

    /// Asked now and then: an error ends the wait.
    fn look(&self) -> Result<(), Self::Error>;

    /// The error for a failure of the transport's progress.
    fn progress_failed(&self, code: i32) -> Self::Error;
}

/// Something besides the transport that needs progress, such as collectives under way.
pub trait Source: Send + Sync {
    /// Does what can be done now; true when something moved. Any thread calls, and may call while
    /// another does.
    fn progress(&self) -> bool;

    /// Whether anything is under way.
    fn is_busy(&self) -> bool;
}

/// Sleep between two looks at the job.
const LOOK: Duration = Duration::from_millis(100);
/// Bounds of the spin before a thread sleeps, in visits.
const SPIN_MIN: u32 = 16;
const SPIN_MAX: u32 = 1 << 12;

/// Makes a job's progress.
pub struct Engine {
    transport: Transport,
    mode: Mode,
    /// Whether this node has more ranks than processors.
    crowded: bool,
    pub(super) line: Line,
    /// How long a thread spins before it sleeps; follows what spinning brought lately.
    spin: AtomicU32,
    sources: RwLock<Vec<Arc<dyn Source>>>,
    sources_len: AtomicUsize,
}

impl Engine {
    pub(super) fn new(transport: &Transport, mode: Mode, crowded: bool, keeper: bool) -> Engine {
        Engine {
            transport: transport.clone(),
            mode,
            crowded,
            line: Line::new(keeper),
            spin: AtomicU32::new(SPIN_MIN),
            sources: RwLock::default(),
            sources_len: AtomicUsize::new(0),
        }
    }

    /// What a blocking call blocks.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    pub(super) fn crowded(&self) -> bool {
        self.crowded
    }

    /// Whether a progress thread runs.
    pub fn has_keeper(&self) -> bool {
        self.line.keeper().is_some()
    }

    /// Adds something that needs progress, as long as the job lives.
    pub fn add_source(&self, source: Arc<dyn Source>) {
        let mut sources = self.sources.write().unwrap_or_else(PoisonError::into_inner);
        sources.push(source);
        self.sources_len.store(sources.len(), Ordering::Release);
    }

    /// Makes progress once. The number of completions, or a negative status.
    #[inline]
    pub fn progress(&self) -> i32 {
        let completed = self.transport.progress();
        if self.sources_len.load(Ordering::Relaxed) == 0 {
            return completed;
        }
        let moved = self.progress_sources();
        if completed < 0 {
            completed
        } else {
            completed + i32::from(moved)
        }
    }

    #[inline(never)]
    fn progress_sources(&self) -> bool {
        // Not waited for: whoever adds a source is no reason to stop, and this may be inside a
        // source already.
        let Ok(sources) = self.sources.try_read() else {
            return false;
        };
        sources
            .iter()
            .fold(false, |moved, source| source.progress() | moved)
    }

    /// Whether operations, or sources, are under way that nobody need wait for.
    pub(super) fn is_busy(&self) -> bool {
        let outstanding = |stats: Stats| stats.posted > stats.completed + stats.failed;
        self.transport.stats().is_ok_and(outstanding)
            || self.sources.try_read().map_or(true, |sources| {
                sources.iter().any(|source| source.is_busy())
            })
    }

    /// Says that something was issued that completes without being waited for: the progress thread,
    /// if there is one, sees to it.
    #[inline]
    pub(crate) fn issued(&self) {
        self.line.call_keeper();
    }

    /// Makes progress once for all that wait: those whose wait is over with it are told.
    #[inline]
    pub(super) fn drive(&self) -> i32 {
        let completed = self.progress();
        if self.line.is_waiting() {
            self.line.tell();
        }
        completed
    }

    /// Progress inside a loop of another kind, such as one that waits for the launcher.
    pub(crate) fn visit(&self) {
        match self.line.try_take() {
            Some(_baton) => self.drive(),
            None => self.progress(),
        };
        if self.mode == Mode::Task {
            self.let_tasks_run();
        }
    }

    /// One visit of a loop that tries something again, such as a post that found no room.
    #[inline]
    pub(crate) fn step<E>(
        &self,
        pace: &mut Pace,
        failed: impl FnOnce(i32) -> E,
        look: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let completed = match self.line.try_take() {
            Some(_baton) => self.drive(),
            None => self.progress(),
        };
        if completed < 0 {
            return Err(failed(completed));
        }
        if self.mode == Mode::Task {
            self.let_tasks_run();
        }
        if pace.after(completed > 0, self.crowded) {
            look()?;
        }
        Ok(())
    }

    /// Lets other tasks of this thread have their turn: what this one tries again may depend on them.
    #[cold]
    fn let_tasks_run(&self) {
        let Some((tasks, task)) = running_task() else {
            return;
        };
        if tasks.can_yield() {
            tasks.yield_now();
        } else if tasks.can_suspend() && self.has_keeper() {
            // Resumed by the progress thread when it comes by.
            let turn = Turn(AtomicBool::new(false));
            let _: Result<(), i32> = self.with_sleeper(&turn, None, Some(task), |sleeper| {
                self.suspend_in_line(&turn, sleeper, &tasks, task)
            });
        }
    }

    /// Waits until something is so.
    #[inline]
    pub fn wait<B: Blocking>(&self, what: &B) -> Result<(), B::Error> {
        if what.is_done() {
            return Ok(());
        }
        match self.mode {
            Mode::Master => self.drive_until(what, || what.is_done()),
            Mode::Thread => self.wait_as_thread(what, None),
            Mode::Task => self.wait_as_task(what, None),
        }
    }

    /// Waits for a request. A condition of the waiter is attached to it if the waiter sleeps.
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

    /// The loop of progress.
    #[inline]
    fn drive_until<B: Blocking>(
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
            if pace.after(completed > 0, self.crowded) {
                what.look()?;
            }
        }
        Ok(())
    }

    /// Spins, and drives if nobody else does. True when the wait is over with that.
    #[inline]
    fn spin<B: Blocking>(&self, what: &B) -> Result<bool, B::Error> {
        let limit = self.spin.load(Ordering::Relaxed);
        // With a progress thread even the one that drives goes to sleep after a while.
        let drives = !self.has_keeper();
        let mut visits = 0;
        while visits < limit {
            if what.is_done() {
                self.spin_was(true, limit);
                return Ok(true);
            }
            if let Some(_baton) = self.line.try_take() {
                if drives {
                    return self.drive_until(what, || what.is_done()).map(|()| true);
                }
                let completed = self.drive();
                if completed < 0 {
                    return Err(what.progress_failed(completed));
                }
            }
            std::hint::spin_loop();
            visits += 1;
        }
        self.spin_was(false, limit);
        Ok(false)
    }

    /// Spins longer where that helped, and shorter where it did not.
    fn spin_was(&self, useful: bool, limit: u32) {
        let next = if useful {
            limit + limit / 4
        } else {
            limit - limit / 4
        };
        // A lost update is as good as another.
        self.spin
            .store(next.clamp(SPIN_MIN, SPIN_MAX), Ordering::Relaxed);
    }

    #[inline]
    fn wait_as_thread<B: Blocking>(
        &self,
        what: &B,
        completion: Option<&Completion>,
    ) -> Result<(), B::Error> {
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
        self.with_sleeper(what, completion, None, |sleeper| {
            self.sleep_in_line(what, sleeper)
        })
    }

    fn sleep_in_line<B: Blocking>(&self, what: &B, sleeper: &Sleeper<'_>) -> Result<(), B::Error> {
        self.line.sleep(
            sleeper,
            Some(LOOK),
            || self.drive_until(what, || sleeper.is_over()),
            || what.look(),
        )
    }

    /// Runs a wait with a sleeper: told by the request, where it can be attached to one, or else by
    /// whoever makes progress and asks. `task`: who is to wait, unless it is the thread.
    fn with_sleeper<B: Blocking>(
        &self,
        what: &B,
        completion: Option<&Completion>,
        task: Option<*mut c_void>,
        run: impl FnOnce(&Sleeper<'_>) -> Result<(), B::Error>,
    ) -> Result<(), B::Error> {
        let (cond, watch) = (Cond::new(), || what.is_done());
        // A new condition refuses nothing.
        let Ok(Begun::Waiting(signal)) = cond.begin(task.is_some()) else {
            return self.drive_until(what, watch);
        };
        if let Some(task) = task {
            cond.name_task(signal, task);
        }
        let mut sleeper = Sleeper {
            cond: &cond,
            signal,
            watch: None,
        };
        if let Some(completion) = completion {
            // SAFETY: the condition was signalled, or is detached below, before it goes.
            match unsafe { completion.attach_cond(&cond) } {
                Ok(Attached::Complete) => return Ok(()),
                Ok(Attached::Later) => {
                    let outcome = run(&sleeper);
                    if outcome.is_err() && !completion.detach_cond(&cond) {
                        // It is being signalled at this moment.
                        while cond.is_attached() {
                            std::thread::yield_now();
                        }
                    }
                    return outcome;
                }
                // Something of the user's is attached.
                Err(_) => {}
            }
        }
        sleeper.watch = Some(&watch);
        run(&sleeper)
    }

    #[inline(never)]
    fn wait_as_task<B: Blocking>(
        &self,
        what: &B,
        completion: Option<&Completion>,
    ) -> Result<(), B::Error> {
        let Some((tasks, task)) = running_task() else {
            return self.wait_as_thread(what, completion);
        };
        if tasks.can_suspend() && self.has_keeper() {
            return self.with_sleeper(what, completion, Some(task), |sleeper| {
                self.suspend_in_line(what, sleeper, &tasks, task)
            });
        }
        if !tasks.can_yield() {
            return self.wait_as_thread(what, completion);
        }
        let mut looked = Instant::now();
        loop {
            if what.is_done() {
                return Ok(());
            }
            if let Some(_baton) = self.line.try_take() {
                let completed = self.drive();
                if completed < 0 {
                    return Err(what.progress_failed(completed));
                }
                if what.is_done() {
                    return Ok(());
                }
            }
            tasks.yield_now();
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                what.look()?;
            }
        }
    }

    /// Suspends the calling task until its condition is signalled. The progress thread drives.
    fn suspend_in_line<B: Blocking>(
        &self,
        what: &B,
        sleeper: &Sleeper<'_>,
        tasks: &Tasks,
        task: *mut c_void,
    ) -> Result<(), B::Error> {
        let _stay = self.line.join(sleeper);
        while !sleeper.is_over() {
            tasks.suspend(task);
            if !sleeper.cond.take_nudge(sleeper.signal) {
                what.look()?;
            }
        }
        Ok(())
    }

    /// What `crt_wait` does: takes a signal that has come, or waits for it as the mode says.
    pub(super) fn wait_cond(&self, cond: &Cond) -> Result<(), Misuse> {
        let task = match self.mode {
            Mode::Task if self.has_keeper() => {
                running_task().filter(|(tasks, _)| tasks.can_suspend())
            }
            _ => None,
        };
        let Begun::Waiting(signal) = cond.begin(task.is_some())? else {
            return Ok(());
        };
        let what = Signalled { cond, signal };
        let sleeper = Sleeper {
            cond,
            signal,
            watch: None,
        };
        let outcome = match (self.mode, task) {
            (_, Some((tasks, task))) => {
                cond.name_task(signal, task);
                self.suspend_in_line(&what, &sleeper, &tasks, task)
            }
            (Mode::Master, None) => self.drive_until(&what, || what.is_done()),
            (Mode::Task, None) if running_task().is_some_and(|(tasks, _)| tasks.can_yield()) => {
                self.wait_as_task(&what, None)
            }
            _ => match self.spin(&what) {
                Ok(false) => self.sleep_in_line(&what, &sleeper),
                over => over.map(drop),
            },
        };
        // A transport that failed makes no progress, but others may still signal.
        if outcome.is_err() {
            while !cond.sleep(signal, None) {}
        }
        Ok(())
    }
}

/// A wait that is over the second time that somebody asks.
struct Turn(AtomicBool);

impl Blocking for Turn {
    type Error = i32;

    fn is_done(&self) -> bool {
        self.0.swap(true, Ordering::Relaxed)
    }

    fn look(&self) -> Result<(), i32> {
        Ok(())
    }

    fn progress_failed(&self, code: i32) -> i32 {
        code
    }
}

/// A wait for the signal of a condition that is turned off.
struct Signalled<'a> {
    cond: &'a Cond,
    signal: Signal,
}

impl Blocking for Signalled<'_> {
    type Error = i32;

    fn is_done(&self) -> bool {
        self.cond.has_come(self.signal)
    }

    fn look(&self) -> Result<(), i32> {
        Ok(())
    }

    fn progress_failed(&self, code: i32) -> i32 {
        code
    }
}
