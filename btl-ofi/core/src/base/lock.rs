//! The one lock of a context: a try-lock that means what it says.
//!
//! It guards the provider's endpoint and completion queue (which were opened with a threading model
//! that leaves serialisation to us) and our own record pool. A host that promised never to call from
//! two threads at once pays a branch and nothing else.

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use crate::base::sync::{AtomicBool, AtomicU32, Ordering, spin_loop, yield_now};

/// Spins before the waiting thread gives up its processor.
const SPINS: u32 = 64;

/// Owns a value that one thread at a time may touch.
pub(crate) struct Lock<T> {
    held: AtomicBool,
    /// Threads in `lock_contended`. Nobody else writes it, so it costs an uncontended lock nothing.
    waiting: AtomicU32,
    /// Whether calls may overlap at all.
    threaded: bool,
    value: UnsafeCell<T>,
}

// SAFETY: `value` is only reached through a Guard, of which one exists at a time: either `held`
// excludes others, or the host promised (thread level below MULTIPLE) that calls never overlap and
// no Guard lives across a callback, so none can nest.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) fn new(value: T, threaded: bool) -> Self {
        Lock {
            held: AtomicBool::new(false),
            waiting: AtomicU32::new(0),
            threaded,
            value: UnsafeCell::new(value),
        }
    }

    /// The value, if no other thread has it.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        // Acquire pairs with the Release in Guard::drop: what the last holder did is seen here.
        if self.threaded && self.held.swap(true, Ordering::Acquire) {
            return None;
        }
        Some(Guard { lock: self })
    }

    /// The value, once no other thread has it. Holders keep it for one provider call, so a short
    /// spin nearly always suffices; after it the processor is yielded, since the holder may be
    /// waiting for this very core.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        match self.try_lock() {
            Some(guard) => guard,
            None => self.lock_contended(),
        }
    }

    /// Whether a thread waits for the value, as far as is known: for a holder of many provider calls or much copying,
    /// which should do something else for a while when it has given the lock back. Whoever gives it back and takes
    /// it again at once nearly always has it before those that wait.
    #[inline]
    pub(crate) fn is_waited_for(&self) -> bool {
        // Relaxed: advice only.
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// As [`lock`](Self::lock), for a caller that knows as a constant whether calls may overlap.
    ///
    /// # Safety
    /// `threaded` is what the lock was made with.
    #[inline(always)]
    pub(crate) unsafe fn lock_as(&self, threaded: bool) -> Guard<'_, T> {
        // Acquire as in try_lock.
        if threaded && self.held.swap(true, Ordering::Acquire) {
            return self.lock_contended();
        }
        Guard { lock: self }
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self) -> Guard<'_, T> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut spins = 0;
        loop {
            // Reading first keeps the cache line shared while another thread holds the lock.
            while self.held.load(Ordering::Relaxed) {
                spins += 1;
                if spins < SPINS {
                    spin_loop();
                } else {
                    yield_now();
                }
            }
            if let Some(guard) = self.try_lock() {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                return guard;
            }
        }
    }
}

/// The right to touch the value.
pub(crate) struct Guard<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Guard<'_, T> {
    /// Gives the lock back, for a caller that knows as a constant whether calls may overlap.
    ///
    /// # Safety
    /// As for [`Lock::lock_as`].
    #[inline(always)]
    pub(crate) unsafe fn unlock_as(self, threaded: bool) {
        let guard = ManuallyDrop::new(self);
        if threaded {
            // Release pairs with the Acquire in try_lock.
            guard.lock.held.store(false, Ordering::Release);
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this Guard is the only one (see the Sync impl).
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this Guard is the only one (see the Sync impl).
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.lock.threaded {
            // Release pairs with the Acquire in try_lock.
            self.lock.held.store(false, Ordering::Release);
        }
    }
}
