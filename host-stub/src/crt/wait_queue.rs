//! The wait queue of a job, and the progress token: the thread that holds the token makes progress for all waiters.
//!
//! A waiter that finds the token free takes it and makes progress until its own wait is over. Other waiters join
//! the queue and sleep. The holder signals each waiter whose wait is over. When the holder leaves, it passes the token to a
//! waiter, so one thread makes progress as long as any thread waits. With a progress thread, the token
//! goes to that thread instead.
//!
//! No wakeup is lost. A waiter joins the queue before it checks whether the token is free; the holder releases the
//! token before it checks whether anything waits. A sequentially consistent fence separates the two steps on both sides, so
//! at least one side sees the other. The condition keeps a signal to a waiter that does not sleep yet.

use std::ptr::NonNull;
use std::time::Duration;

use super::cond::{Cond, Signal};
use super::sync::{AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering, PoisonError, fence};

/// Returns whether a wait is over. The holder of the progress token calls this function.
pub(crate) type Watch<'a> = &'a (dyn Fn() -> bool + Sync);

/// A waiter. A waiter lives in the stack frame of the wait, and waits for the signal of its condition. With a
/// watch, the holder of the token signals when the watch returns true.
pub(crate) struct Waiter<'a> {
    pub(crate) cond: &'a Cond,
    pub(crate) signal: Signal,
    pub(crate) watch: Option<Watch<'a>>,
}

impl Waiter<'_> {
    /// Whether the wait is over.
    pub(crate) fn is_over(&self) -> bool {
        self.cond.has_come(self.signal) || self.watch.is_some_and(|watch| watch())
    }

    /// Wakes the waiter without a signal. The caller holds the queue's lock, so the waiter stays
    /// alive.
    fn nudge(&self) {
        self.cond.nudge();
    }
}

/// A waiter in the queue. The waiter's frame outlives its entry in the queue.
struct Entry(NonNull<Waiter<'static>>);

// SAFETY: a waiter consists of atomics and a watch that is Sync. Entries are used under the queue's
// lock, and each is removed before its waiter is dropped.
unsafe impl Send for Entry {}

impl Entry {
    fn get(&self) -> &Waiter<'static> {
        // SAFETY: the waiter lives as long as its entry is in the queue.
        unsafe { self.0.as_ref() }
    }
}

/// The wait queue of a job.
pub(crate) struct WaitQueue {
    held: AtomicBool,
    waiting: AtomicUsize,
    entries: Mutex<Vec<Entry>>,
    /// The condition that the progress thread sleeps on, if there is one.
    progress_thread: Option<Cond>,
    /// Whether the progress thread found the token taken.
    missed: AtomicBool,
    /// Whether a spinning waiter asks for the token that the progress thread holds.
    wanted: AtomicBool,
}

/// The progress token. Dropping the token passes it on.
pub(crate) struct ProgressToken<'a>(&'a WaitQueue);

/// A waiter's membership in the queue, which ends when dropped.
pub(crate) struct Queued<'a> {
    queue: &'a WaitQueue,
    waiter: NonNull<Waiter<'static>>,
}

impl WaitQueue {
    /// An empty queue. With a progress thread, the token is passed to that thread only.
    pub(crate) fn new(progress_thread: bool) -> WaitQueue {
        WaitQueue {
            held: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            entries: Mutex::new(Vec::new()),
            progress_thread: progress_thread.then(Cond::new),
            missed: AtomicBool::new(false),
            wanted: AtomicBool::new(false),
        }
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The condition that the progress thread sleeps on; `None` without a progress thread.
    pub(crate) fn progress_thread(&self) -> Option<&Cond> {
        self.progress_thread.as_ref()
    }

    /// Whether the queue has a waiter.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Takes the progress token if it is free.
    #[inline]
    pub(crate) fn try_take(&self) -> Option<ProgressToken<'_>> {
        // The load keeps the cache line shared while another thread holds the token. Acquire pairs with the
        // Release in the Drop of `ProgressToken`.
        let free = self.is_free()
            && self
                .held
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        // `then_some` would make a token in each case, and release it when it is dropped.
        free.then(|| ProgressToken(self))
    }

    /// Takes the token for the progress thread. If the token is taken, its release wakes the
    /// thread.
    pub(crate) fn take_for_progress_thread(&self) -> Option<ProgressToken<'_>> {
        self.try_take().or_else(|| {
            self.missed.store(true, Ordering::Relaxed);
            // See the module's docs: either this sees the token free, or its holder sees `missed`.
            fence(Ordering::SeqCst);
            self.try_take()
        })
    }

    /// Asks the progress thread for the token, for a waiter that spins.
    pub(crate) fn want(&self) {
        if !self.wanted.load(Ordering::Relaxed) {
            self.wanted.store(true, Ordering::Relaxed);
        }
    }

    /// For the progress thread: whether a waiter asked for the token since the last call.
    #[inline]
    pub(crate) fn take_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) && self.wanted.swap(false, Ordering::Relaxed)
    }

    /// Whether the token is free.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        !self.held.load(Ordering::Relaxed)
    }

    /// Wakes the progress thread, or keeps it awake once.
    #[inline]
    pub(crate) fn wake_progress_thread(&self) {
        if let Some(progress_thread) = &self.progress_thread {
            // The call fails if a signal is pending, which has the same effect.
            let _ = progress_thread.raise();
        }
    }

    /// Joins the queue until the result is dropped.
    pub(crate) fn join<'a>(&'a self, waiter: &'a Waiter<'_>) -> Queued<'a> {
        let waiter = NonNull::from(waiter).cast::<Waiter<'static>>();
        self.entries().push(Entry(waiter));
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // Before the check whether the token is free: see the module's docs.
        fence(Ordering::SeqCst);
        self.wake_progress_thread();
        Queued {
            queue: self,
            waiter,
        }
    }

    /// Signals the waiters whose watch returns true.
    pub(crate) fn signal_done(&self) {
        for entry in self.entries().iter() {
            let waiter = entry.get();
            let over = waiter
                .watch
                .is_some_and(|watch| !waiter.cond.has_come(waiter.signal) && watch());
            // Only the holder of the token signals a waiter with a watch, so the condition does not refuse.
            if over {
                let _ = waiter.cond.raise();
            }
        }
    }

    /// Wakes all waiters, so that each checks the job.
    pub(super) fn wake_all(&self) {
        for entry in self.entries().iter() {
            entry.get().nudge();
        }
    }

    /// Offers the token to a waiter. The waiter need not take it: a waiter that leaves the queue while the token
    /// is free offers it again.
    fn pass_on(&self) {
        if self.progress_thread.is_some() {
            return self.wake_progress_thread();
        }
        let entries = self.entries();
        let next = entries
            .iter()
            .map(Entry::get)
            .find(|waiter| !waiter.cond.has_come(waiter.signal));
        if let Some(waiter) = next {
            waiter.nudge();
        }
    }

    /// Blocks the thread until the wait is over. `drive` is called with the token held, and returns when the wait
    /// is over; `look` is called at least once in every `limit` of sleep. An error of either ends the wait.
    pub(crate) fn sleep<E>(
        &self,
        waiter: &Waiter<'_>,
        limit: Option<Duration>,
        mut drive: impl FnMut() -> Result<(), E>,
        mut look: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let _queued = self.join(waiter);
        while !waiter.is_over() {
            if self.progress_thread.is_none()
                && let Some(_token) = self.try_take()
            {
                return drive();
            }
            if !waiter.cond.sleep(waiter.signal, limit) {
                look()?;
            }
        }
        Ok(())
    }
}

impl Drop for ProgressToken<'_> {
    fn drop(&mut self) {
        self.0.held.store(false, Ordering::Release);
        // Before the check for waiters: see the module's docs.
        fence(Ordering::SeqCst);
        if self.0.is_waiting() {
            self.0.pass_on();
        } else if self.0.progress_thread.is_some() && self.0.missed.load(Ordering::Relaxed) {
            self.0.missed.store(false, Ordering::Relaxed);
            self.0.wake_progress_thread();
        }
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        let mut entries = self.queue.entries();
        if let Some(index) = entries.iter().position(|entry| entry.0 == self.waiter) {
            // In order, so that the longest waiter gets the token.
            entries.remove(index);
        }
        drop(entries);
        let others = self.queue.waiting.fetch_sub(1, Ordering::Relaxed) > 1;
        fence(Ordering::SeqCst);
        // The token may have been offered to this waiter.
        if others && self.queue.is_free() {
            self.queue.pass_on();
        }
    }
}
