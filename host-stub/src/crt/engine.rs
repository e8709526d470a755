//! Makes a job's progress: the transport's, and the progress of every other [`Source`]. `waits` describes how calls
//! wait for progress.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::level::{Checker, Entered, LevelError};
use super::mode::Mode;
use super::wait_queue::WaitQueue;
use crate::loader::Transport;
use osc_engine::door::Pace;
use plugin_api::Stats;

/// A condition that a call waits for.
pub trait Blocking: Sync {
    /// The error that ends the wait early.
    type Error;

    /// Whether another process ends the wait by a write to shared memory, without progress of this
    /// process. Reads of that memory are cheap, and precede progress.
    const NEAR: bool = false;

    /// Returns whether the wait is over. Any thread that makes progress calls this often, so it is fast
    /// and never blocks.
    fn is_done(&self) -> bool;

    /// Checks for errors now and then; an error ends the wait.
    fn look(&self) -> Result<(), Self::Error>;

    /// The error for a failure of the transport's progress.
    fn progress_failed(&self, code: i32) -> Self::Error;
}

/// A wait until a condition holds, which only a failure of the transport's progress ends early.
pub(crate) struct Until<F>(pub(crate) F);

impl<F: Fn() -> bool + Sync> Blocking for Until<F> {
    type Error = i32;

    fn is_done(&self) -> bool {
        (self.0)()
    }

    fn look(&self) -> Result<(), i32> {
        Ok(())
    }

    fn progress_failed(&self, code: i32) -> i32 {
        code
    }
}

/// An object besides the transport that needs progress, such as outstanding collectives.
pub trait Source: Send + Sync {
    /// Does all that is possible now; true if something moved. Any thread may call, also while
    /// another thread is inside the call.
    fn progress(&self) -> bool;
}

/// The number of sources with outstanding work; each source updates the number itself. While the
/// number is zero, no source is asked for progress, and the progress thread does not stay awake.
#[derive(Clone, Debug, Default)]
pub struct Busy(Arc<AtomicUsize>);

impl Busy {
    /// Counts the source in or out.
    pub fn set(&self, busy: bool) {
        // Relaxed is enough: a thread that must see the number is woken, or makes progress itself.
        if busy {
            self.0.fetch_add(1, Ordering::Relaxed);
        } else {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The count itself.
    pub(super) fn count(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.0)
    }

    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// The initial number of visits for which a thread spins before it sleeps.
pub(super) const SPIN_MIN: u32 = 16;

/// Makes a job's progress.
pub struct Engine {
    transport: Transport,
    pub(super) mode: Mode,
    /// Whether this node has more ranks than processors.
    pub(super) oversubscribed: bool,
    pub(super) queue: WaitQueue,
    /// The number of visits for which a thread spins before it sleeps; adapts to the recent
    /// successes of spinning.
    pub(super) spin: AtomicU32,
    sources: RwLock<Vec<Arc<dyn Source>>>,
    busy: Busy,
    /// The status of the progress thread's last failed visit; 0 if the last visit succeeded.
    trouble: AtomicI32,
    /// The runtime's checker, for waits that know no job.
    checker: Option<Arc<Checker>>,
}

impl Engine {
    pub(super) fn new(
        transport: &Transport,
        mode: Mode,
        oversubscribed: bool,
        progress_thread: bool,
        checker: Option<Arc<Checker>>,
    ) -> Engine {
        Engine {
            transport: transport.clone(),
            mode,
            oversubscribed,
            queue: WaitQueue::new(progress_thread),
            spin: AtomicU32::new(SPIN_MIN),
            sources: RwLock::default(),
            busy: Busy::default(),
            trouble: AtomicI32::new(0),
            checker,
        }
    }

    /// Begins a call; an error if the thread level does not allow this thread to call.
    pub(super) fn enter(&self, call: &'static str) -> Result<Option<Entered<'_>>, LevelError> {
        self.checker
            .as_deref()
            .map(|checker| checker.enter(call))
            .transpose()
    }

    /// The mode: selects whether a blocking call blocks the process, the thread or the task.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    pub(super) fn oversubscribed(&self) -> bool {
        self.oversubscribed
    }

    /// Whether a progress thread runs.
    pub fn has_progress_thread(&self) -> bool {
        self.queue.progress_thread().is_some()
    }

    /// Adds a source that needs progress, until the source is removed or the job ends. The source counts itself
    /// in `busy` ([`Self::busy`]) while it has outstanding work.
    pub fn add_source(&self, source: Arc<dyn Source>) {
        let mut sources = self.sources.write().unwrap_or_else(PoisonError::into_inner);
        sources.push(source);
    }

    /// Removes a source; after the call, no thread makes the source's progress. A source must not call this from
    /// its own progress.
    pub(crate) fn remove_source(&self, source: &Arc<dyn Source>) {
        let mut sources = self.sources.write().unwrap_or_else(PoisonError::into_inner);
        sources.retain(|other| !Arc::ptr_eq(other, source));
    }

    /// The status of the progress thread's last failed visit. A wait that makes no progress itself ends with this
    /// failure, as with a failure of its own progress call.
    #[inline]
    pub(crate) fn trouble(&self) -> Option<i32> {
        match self.trouble.load(Ordering::Relaxed) {
            0 => None,
            code => Some(code),
        }
    }

    /// Records the outcome of a visit of the progress thread.
    pub(super) fn visited(&self, completed: i32) {
        let code = completed.min(0);
        if self.trouble.load(Ordering::Relaxed) != code {
            self.trouble.store(code, Ordering::Relaxed);
        }
    }

    /// Checks the progress thread's status and the condition, for a wait that makes no progress
    /// itself.
    pub(super) fn look<B: Blocking>(&self, what: &B) -> Result<(), B::Error> {
        match self.trouble() {
            Some(code) => Err(what.progress_failed(code)),
            None => what.look(),
        }
    }

    /// The number of sources with outstanding work.
    pub fn busy(&self) -> &Busy {
        &self.busy
    }

    /// Makes progress once. Returns the number of completions, a larger number if progress served peers, or
    /// a negative status.
    #[inline]
    pub fn progress(&self) -> i32 {
        let completed = self.transport.progress();
        if !self.busy.any() {
            return completed;
        }
        let moved = self.progress_sources();
        if completed < 0 || !moved {
            return completed;
        }
        // Peers wait for the operations that the sources posted, and the next progress may come
        // late.
        match self.transport.progress() {
            failed if failed < 0 => failed,
            more => completed.saturating_add(more).saturating_add(1),
        }
    }

    #[inline(never)]
    fn progress_sources(&self) -> bool {
        // `read` could deadlock: this may run inside a source while a thread adds another source.
        let Ok(sources) = self.sources.try_read() else {
            return false;
        };
        sources
            .iter()
            .fold(false, |moved, source| source.progress() | moved)
    }

    /// Whether operations or sources are outstanding, even if no call waits for them.
    pub(super) fn is_busy(&self) -> bool {
        let outstanding = |stats: Stats| stats.posted > stats.completed + stats.failed;
        self.busy.any() || self.transport.stats().is_ok_and(outstanding)
    }

    /// Records that a waiter wants a signal and makes no progress itself. Wakes the progress thread, if there is one.
    #[inline]
    pub(crate) fn awaited(&self) {
        self.queue.wake_progress_thread();
    }

    /// Makes progress once, and signals the waiters whose wait is over.
    #[inline]
    pub(super) fn drive(&self) -> i32 {
        let completed = self.progress();
        if self.queue.is_waiting() {
            self.queue.signal_done();
        }
        completed
    }

    /// Makes progress inside a loop of another kind, such as a wait for the launcher.
    pub(crate) fn visit(&self) {
        match self.queue.try_take() {
            Some(_token) => self.drive(),
            None => self.progress(),
        };
        if self.mode == Mode::Task {
            self.let_tasks_run();
        }
    }

    /// One visit of a loop that retries, such as the retry of a post that found no room.
    #[inline]
    pub(crate) fn step<E>(
        &self,
        pace: &mut Pace,
        failed: impl FnOnce(i32) -> E,
        look: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let completed = match self.queue.try_take() {
            Some(_token) => self.drive(),
            None => self.progress(),
        };
        if completed < 0 {
            return Err(failed(completed));
        }
        if self.mode == Mode::Task {
            self.let_tasks_run();
        }
        if pace.after(completed > 0, self.oversubscribed) {
            look()?;
        }
        Ok(())
    }
}
