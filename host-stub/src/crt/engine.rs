//! Makes a job's progress: the transport's, and that of every other [`Source`]. `waits` describes how calls wait for
//! it.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::level::{Checker, Entered, LevelError};
use super::mode::Mode;
use super::wait_queue::WaitQueue;
use crate::loader::Transport;
use osc_engine::door::Pace;
use plugin_api::Stats;

/// Something that is waited for.
pub trait Blocking: Sync {
    /// What ends the wait early.
    type Error;

    /// Whether another process ends the wait by writing to shared memory, which no progress of this
    /// one brings about: looks are cheap then, and come first.
    const NEAR: bool = false;

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
}

/// How many sources have something under way; each counts itself in and out. As long as it is zero
/// no source is asked for progress, and the progress thread does not stay awake for one.
#[derive(Clone, Debug, Default)]
pub struct Busy(Arc<AtomicUsize>);

impl Busy {
    /// A source has something under way, or has no more.
    pub fn set(&self, busy: bool) {
        // Relaxed: a thread that must know is woken, or makes progress itself.
        if busy {
            self.0.fetch_add(1, Ordering::Relaxed);
        } else {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// Where the spin before a thread sleeps begins, in visits.
pub(super) const SPIN_MIN: u32 = 16;

/// Makes a job's progress.
pub struct Engine {
    transport: Transport,
    pub(super) mode: Mode,
    /// Whether this node has more ranks than processors.
    pub(super) oversubscribed: bool,
    pub(super) queue: WaitQueue,
    /// How long a thread spins before it sleeps; follows what spinning brought lately.
    pub(super) spin: AtomicU32,
    sources: RwLock<Vec<Arc<dyn Source>>>,
    busy: Busy,
    /// What the progress thread's last visit failed with; 0 as long as they succeed.
    trouble: AtomicI32,
    /// As the runtime's, for waits that know no job.
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

    /// Begins a call, if the thread level allows it to this thread.
    pub(super) fn enter(&self, call: &'static str) -> Result<Option<Entered<'_>>, LevelError> {
        self.checker
            .as_deref()
            .map(|checker| checker.enter(call))
            .transpose()
    }

    /// What a blocking call blocks.
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

    /// Adds something that needs progress, until it is removed or the job ends. It counts itself in `busy`
    /// ([`Self::busy`]) while it has something under way.
    pub fn add_source(&self, source: Arc<dyn Source>) {
        let mut sources = self.sources.write().unwrap_or_else(PoisonError::into_inner);
        sources.push(source);
    }

    /// Removes a source, whose progress is not made any more when this returns. Not called by a source that
    /// makes progress.
    pub(crate) fn remove_source(&self, source: &Arc<dyn Source>) {
        let mut sources = self.sources.write().unwrap_or_else(PoisonError::into_inner);
        sources.retain(|other| !Arc::ptr_eq(other, source));
    }

    /// What the progress thread's last visit failed with. A wait that makes no progress itself ends with it, as it
    /// would with a failure of its own progress call.
    #[inline]
    pub(crate) fn trouble(&self) -> Option<i32> {
        match self.trouble.load(Ordering::Relaxed) {
            0 => None,
            code => Some(code),
        }
    }

    /// Notes how a visit of the progress thread went.
    pub(super) fn visited(&self, completed: i32) {
        let code = completed.min(0);
        if self.trouble.load(Ordering::Relaxed) != code {
            self.trouble.store(code, Ordering::Relaxed);
        }
    }

    /// Looks at the progress and at what is waited for, for one that has others make progress.
    pub(super) fn look<B: Blocking>(&self, what: &B) -> Result<(), B::Error> {
        match self.trouble() {
            Some(code) => Err(what.progress_failed(code)),
            None => what.look(),
        }
    }

    /// The count of sources with something under way.
    pub fn busy(&self) -> &Busy {
        &self.busy
    }

    /// Makes progress once. The number of completions, or more where it served peers, or a negative status.
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
        // Peers wait for what the sources posted, and this may be the last look for long.
        match self.transport.progress() {
            failed if failed < 0 => failed,
            more => completed.saturating_add(more).saturating_add(1),
        }
    }

    #[inline(never)]
    fn progress_sources(&self) -> bool {
        // Not `read`: this may run inside a source while a thread adds another one.
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
        self.busy.any() || self.transport.stats().is_ok_and(outstanding)
    }

    /// Notes that a waiter wants to be signalled and makes no progress itself. Wakes the progress thread, if there is
    /// one.
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

    /// Progress inside a loop of another kind, such as one that waits for the launcher.
    pub(crate) fn visit(&self) {
        match self.queue.try_take() {
            Some(_token) => self.drive(),
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
