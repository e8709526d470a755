//! The line of those who wait, and the baton that one of them holds: whoever holds it makes
//! progress, for all.
//!
//! A waiter that finds the baton free takes it, and drives until its own wait is over. Others join
//! the line and sleep. The holder tells each whose wait is over, and when it leaves passes the baton
//! on to one that still waits, so that somebody drives as long as anybody waits. With a *keeper* (the
//! progress thread) the baton goes to it instead.
//!
//! No wakeup is lost: a waiter joins before it looks whether the baton is free, and the holder lets
//! go of the baton before it looks whether anybody waits, each with a sequentially consistent fence
//! between the two, so one of them sees the other; and a signal to a waiter that does not sleep yet is
//! kept by its condition.

use std::ptr::NonNull;
use std::time::Duration;

use super::cond::{Cond, Signal};
use super::sync::{AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering, PoisonError, fence};

/// Says whether a wait is over; asked by whoever holds the baton.
pub(crate) type Watch<'a> = &'a (dyn Fn() -> bool + Sync);

/// One that waits, in its own frame: for the signal of its condition, which was turned off. Where
/// there is a watch, whoever holds the baton signals when the watch says so.
pub(crate) struct Sleeper<'a> {
    pub(crate) cond: &'a Cond,
    pub(crate) signal: Signal,
    pub(crate) watch: Option<Watch<'a>>,
}

impl Sleeper<'_> {
    /// Whether the wait is over.
    pub(crate) fn is_over(&self) -> bool {
        self.cond.has_come(self.signal) || self.watch.is_some_and(|watch| watch())
    }

    /// Wakes it without a signal.
    /// The line is locked meanwhile, so the sleeper stays.
    fn nudge(&self) {
        self.cond.nudge();
    }
}

/// A sleeper in the line. It stays in its frame until it left the line.
struct Place(NonNull<Sleeper<'static>>);

// SAFETY: a sleeper is made of atomics and a watch that is Sync; places are used under the line's
// lock, and each leaves the line before its sleeper goes.
unsafe impl Send for Place {}

impl Place {
    fn get(&self) -> &Sleeper<'static> {
        // SAFETY: as above: the sleeper lives as long as it is in the line.
        unsafe { self.0.as_ref() }
    }
}

/// The line of a job.
pub(crate) struct Line {
    held: AtomicBool,
    waiting: AtomicUsize,
    places: Mutex<Vec<Place>>,
    /// The progress thread's, if there is one.
    keeper: Option<Cond>,
    /// Whether the keeper found the baton taken.
    missed: AtomicBool,
    /// Whether one that spins would like to have the baton that the keeper holds.
    wanted: AtomicBool,
    /// Whether something was issued that the keeper should see to when it comes by.
    mentioned: AtomicBool,
    /// Whether the keeper comes by no more unless it is called.
    deep: AtomicBool,
}

/// The baton in a holder's hand. Given on when dropped.
pub(crate) struct Baton<'a>(&'a Line);

/// A sleeper's stay in the line.
pub(crate) struct Stay<'a> {
    line: &'a Line,
    sleeper: NonNull<Sleeper<'static>>,
}

impl Line {
    /// An empty line; with a keeper the baton goes to nobody else that sleeps.
    pub(crate) fn new(keeper: bool) -> Line {
        Line {
            held: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            places: Mutex::new(Vec::new()),
            keeper: keeper.then(Cond::new),
            missed: AtomicBool::new(false),
            wanted: AtomicBool::new(false),
            mentioned: AtomicBool::new(false),
            deep: AtomicBool::new(false),
        }
    }

    fn places(&self) -> MutexGuard<'_, Vec<Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The condition that the keeper sleeps on.
    pub(crate) fn keeper(&self) -> Option<&Cond> {
        self.keeper.as_ref()
    }

    /// Whether anybody is in the line.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Takes the baton if nobody holds it.
    #[inline]
    pub(crate) fn try_take(&self) -> Option<Baton<'_>> {
        // The load keeps the line of memory shared while another drives. Acquire: pairs with the
        // Release of who held it before.
        let free = self.is_free()
            && self
                .held
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        // Made only if it is free: one that is dropped gives it back.
        free.then(|| Baton(self))
    }

    /// Takes the baton for the keeper, who is called when it is free if it is not now.
    pub(crate) fn take_as_keeper(&self) -> Option<Baton<'_>> {
        self.try_take().or_else(|| {
            self.missed.store(true, Ordering::Relaxed);
            // As in the module's docs: either the baton is seen free, or its holder sees this.
            fence(Ordering::SeqCst);
            self.try_take()
        })
    }

    /// Asks the keeper for the baton, for one that is about to drive by itself.
    pub(crate) fn want(&self) {
        if !self.wanted.load(Ordering::Relaxed) {
            self.wanted.store(true, Ordering::Relaxed);
        }
    }

    /// Whether somebody asked for the baton since the last time; for the keeper.
    #[inline]
    pub(crate) fn take_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) && self.wanted.swap(false, Ordering::Relaxed)
    }

    /// Says that something was issued that the keeper should see to. Wakes it only where it would
    /// not come by on its own: its naps are short, and a call is dear.
    #[inline]
    pub(crate) fn mention(&self) {
        let Some(keeper) = &self.keeper else { return };
        // Release: who finds the mention finds what was issued before it; pairs with `take_mention`.
        self.mentioned.store(true, Ordering::Release);
        // Either the keeper, about to sleep deeply, sees the mention, or this sees that it does;
        // pairs with the fence in `fall_asleep`.
        fence(Ordering::SeqCst);
        if self.deep.load(Ordering::Relaxed) {
            let _ = keeper.raise();
        }
    }

    /// Whether something was mentioned since the last time; for the keeper.
    pub(crate) fn take_mention(&self) -> bool {
        // A look comes first, so that what is not there is not written either: the line of memory stays
        // with those who mention. Acquire: pairs with `mention`.
        self.mentioned.load(Ordering::Relaxed) && self.mentioned.swap(false, Ordering::Acquire)
    }

    /// From here on a mention calls the keeper. False when one came before: it stays awake.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.deep.store(true, Ordering::Relaxed);
        // See `mention`.
        fence(Ordering::SeqCst);
        let asleep = !self.take_mention();
        if !asleep {
            self.wake_up();
        }
        asleep
    }

    /// From here on a mention is left for the keeper to find.
    pub(crate) fn wake_up(&self) {
        self.deep.store(false, Ordering::Relaxed);
    }

    /// Whether nobody holds the baton.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        !self.held.load(Ordering::Relaxed)
    }

    /// Wakes the keeper, or keeps it from falling asleep once.
    #[inline]
    pub(crate) fn call_keeper(&self) {
        if let Some(keeper) = &self.keeper {
            // A second signal in a row is as good as one.
            let _ = keeper.raise();
        }
    }

    /// Joins the line, until the stay is dropped.
    pub(crate) fn join<'a>(&'a self, sleeper: &'a Sleeper<'_>) -> Stay<'a> {
        let sleeper = NonNull::from(sleeper).cast::<Sleeper<'static>>();
        self.places().push(Place(sleeper));
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // Before the look whether the baton is free: see the module's docs.
        fence(Ordering::SeqCst);
        self.call_keeper();
        Stay {
            line: self,
            sleeper,
        }
    }

    /// Signals those whose watch says that their wait is over.
    pub(crate) fn tell(&self) {
        for place in self.places().iter() {
            let sleeper = place.get();
            let over = sleeper
                .watch
                .is_some_and(|watch| !sleeper.cond.has_come(sleeper.signal) && watch());
            // Nobody else signals where there is a watch, so the condition does not refuse.
            if over {
                let _ = sleeper.cond.raise();
            }
        }
    }

    /// Wakes all, so that each looks at the job.
    pub(super) fn wake_all(&self) {
        for place in self.places().iter() {
            place.get().nudge();
        }
    }

    /// Gives the baton to one that waits. It need not take it: whoever leaves the line while the
    /// baton is free passes it on again.
    fn pass_on(&self) {
        if self.keeper.is_some() {
            return self.call_keeper();
        }
        let places = self.places();
        let next = places
            .iter()
            .map(Place::get)
            .find(|sleeper| !sleeper.cond.has_come(sleeper.signal));
        if let Some(sleeper) = next {
            sleeper.nudge();
        }
    }

    /// Waits as a thread until the sleeper's wait is over. `drive` is called with the baton in hand,
    /// and returns when that is so; `look` is called at least once in every `limit` of sleep. An
    /// error of either ends the wait.
    pub(crate) fn sleep<E>(
        &self,
        sleeper: &Sleeper<'_>,
        limit: Option<Duration>,
        mut drive: impl FnMut() -> Result<(), E>,
        mut look: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let _stay = self.join(sleeper);
        while !sleeper.is_over() {
            if self.keeper.is_none()
                && let Some(_baton) = self.try_take()
            {
                return drive();
            }
            if !sleeper.cond.sleep(sleeper.signal, limit) {
                look()?;
            }
        }
        Ok(())
    }
}

impl Drop for Baton<'_> {
    fn drop(&mut self) {
        self.0.held.store(false, Ordering::Release);
        // Before the look at who waits: see the module's docs.
        fence(Ordering::SeqCst);
        if self.0.is_waiting() {
            self.0.pass_on();
        } else if self.0.keeper.is_some() && self.0.missed.load(Ordering::Relaxed) {
            self.0.missed.store(false, Ordering::Relaxed);
            self.0.call_keeper();
        }
    }
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        let mut places = self.line.places();
        if let Some(index) = places.iter().position(|place| place.0 == self.sleeper) {
            // In order, so that the baton goes to who has waited longest.
            places.remove(index);
        }
        drop(places);
        let others = self.line.waiting.fetch_sub(1, Ordering::Relaxed) > 1;
        fence(Ordering::SeqCst);
        // The baton may have been passed to this one.
        if others && self.line.is_free() {
            self.line.pass_on();
        }
    }
}
