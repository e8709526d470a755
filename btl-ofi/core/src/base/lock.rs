//! The lock of a context: a spin lock with a try-lock.
//!
//! The lock guards the provider's endpoint and completion queue, which are opened with a threading model that leaves
//! serialisation to the caller, and the pool of operation records. If the host promises that calls never overlap, a
//! lock costs one branch.

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

#[cfg(debug_assertions)]
use crate::base::sync::thread_token;
use crate::base::sync::{AtomicBool, AtomicU32, Ordering, spin_loop, yield_now};

/// Number of spins before a waiting thread yields its core.
const SPINS: u32 = 64;

/// A value that one thread at a time may use.
pub(crate) struct Lock<T> {
    held: AtomicBool,
    /// Number of threads in `lock_contended`. Only these threads write the number, so an uncontended lock costs
    /// nothing more.
    waiting: AtomicU32,
    /// Whether calls may overlap.
    threaded: bool,
    /// The thread that holds the lock, in builds with assertions.
    #[cfg(debug_assertions)]
    holder: Holder,
    value: UnsafeCell<T>,
}

// SAFETY: only a Guard reaches `value`, and one Guard exists at a time. Either `held` excludes other threads, or the
// host promises (thread level below MULTIPLE) that calls never overlap. No Guard lives across a callback, so no lock
// is nested.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) fn new(value: T, threaded: bool) -> Self {
        Lock {
            held: AtomicBool::new(false),
            waiting: AtomicU32::new(0),
            threaded,
            #[cfg(debug_assertions)]
            holder: Holder::default(),
            value: UnsafeCell::new(value),
        }
    }

    /// Locks, or returns `None` if another thread holds the lock.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        // Acquire pairs with the Release in Guard::drop and Guard::unlock_as: this thread sees the writes of the last
        // holder.
        if self.threaded && self.held.swap(true, Ordering::Acquire) {
            return None;
        }
        Some(self.taken())
    }

    /// Locks. Waits if another thread holds the lock. A holder keeps the lock for about one provider call, so a short
    /// spin nearly always suffices. After the spin the thread yields, because the holder may need this processor.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        match self.try_lock() {
            Some(guard) => guard,
            None => self.lock_contended(),
        }
    }

    /// As [`lock`](Self::lock), but returns `None` if a short spin does not suffice.
    #[cold]
    #[inline(never)]
    pub(crate) fn lock_soon(&self) -> Option<Guard<'_, T>> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut guard = self.try_lock();
        for _ in 0..SPINS {
            if guard.is_some() {
                break;
            }
            spin_loop();
            // The read comes first, as in `lock_contended`.
            if !self.held.load(Ordering::Relaxed) {
                guard = self.try_lock();
            }
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    /// Whether a thread waits for the lock. The result may be out of date. A holder that makes many provider calls
    /// or long copies checks this. If a thread waits, the holder unlocks and then does other work for a while: a
    /// thread that locks again at once nearly always wins against the waiters.
    #[inline]
    pub(crate) fn is_waited_for(&self) -> bool {
        // Relaxed pairs with nothing: the result is advice.
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// [`try_lock`](Self::try_lock) for a caller that knows at compile time whether calls may overlap.
    ///
    /// # Safety
    /// `threaded` equals the argument of [`new`](Self::new).
    #[inline(always)]
    pub(crate) unsafe fn try_lock_as(&self, threaded: bool) -> Option<Guard<'_, T>> {
        // Acquire pairs with the Release in Guard::drop and Guard::unlock_as.
        if threaded && self.held.swap(true, Ordering::Acquire) {
            return None;
        }
        Some(self.taken())
    }

    /// [`lock`](Self::lock) for a caller that knows at compile time whether calls may overlap.
    ///
    /// # Safety
    /// `threaded` equals the argument of [`new`](Self::new).
    #[inline(always)]
    pub(crate) unsafe fn lock_as(&self, threaded: bool) -> Guard<'_, T> {
        // Acquire pairs with the Release in Guard::drop and Guard::unlock_as.
        if threaded && self.held.swap(true, Ordering::Acquire) {
            return self.lock_contended();
        }
        self.taken()
    }

    #[inline(always)]
    fn taken(&self) -> Guard<'_, T> {
        #[cfg(debug_assertions)]
        self.holder.begin();
        Guard { lock: self }
    }

    #[inline(always)]
    fn before_release(&self) {
        #[cfg(debug_assertions)]
        self.holder.end();
    }

    /// Makes a guard in place of a [leaked](Guard::leak) one.
    ///
    /// # Safety
    /// This thread leaked its guard, and makes one new guard for it.
    pub(crate) unsafe fn make_guard_unchecked(&self) -> Guard<'_, T> {
        Guard { lock: self }
    }

    /// Returns the value in a child of fork. A thread of the parent may have held the lock; from now on it is
    /// free.
    ///
    /// # Safety
    /// This process has no other thread, and this thread has no guard of the lock.
    pub(crate) unsafe fn free_in_child(&self) -> *mut T {
        #[cfg(debug_assertions)]
        self.holder.end();
        self.held.store(false, Ordering::Relaxed);
        self.value.get()
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self) -> Guard<'_, T> {
        #[cfg(debug_assertions)]
        assert!(
            !self.holder.is_me(),
            "a thread waits for a lock that it holds"
        );
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut spins = 0;
        loop {
            // A relaxed read comes before the exchange in try_lock. This read keeps the cache line shared while another
            // thread holds the lock.
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

/// Detects a thread that locks twice. Such a thread would wait for itself or, if calls never overlap, have two
/// references to the value.
#[cfg(debug_assertions)]
#[derive(Default)]
struct Holder(std::sync::atomic::AtomicUsize);

#[cfg(debug_assertions)]
impl Holder {
    fn is_me(&self) -> bool {
        self.0.load(std::sync::atomic::Ordering::Relaxed) == thread_token() && thread_token() != 0
    }

    fn begin(&self) {
        assert!(!self.is_me(), "a thread locks twice");
        self.0
            .store(thread_token(), std::sync::atomic::Ordering::Relaxed);
    }

    fn end(&self) {
        self.0.store(0, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Exclusive access to the value; unlocks when dropped.
pub(crate) struct Guard<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Guard<'_, T> {
    /// Gives up the guard and leaves the lock locked. [`Lock::make_guard_unchecked`] makes a guard again. (The names
    /// are those of the crate lock_api.)
    #[inline(always)]
    pub(crate) fn leak(self) {
        let _ = ManuallyDrop::new(self);
    }

    /// Unlocks, for a caller that knows at compile time whether calls may overlap.
    ///
    /// # Safety
    /// `threaded` equals the argument of [`Lock::new`].
    #[inline(always)]
    pub(crate) unsafe fn unlock_as(self, threaded: bool) {
        let guard = ManuallyDrop::new(self);
        guard.lock.before_release();
        if threaded {
            // Release pairs with the Acquire in try_lock and lock_as.
            guard.lock.held.store(false, Ordering::Release);
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: one Guard of a lock exists at a time, so no other reference to the value exists.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: one Guard of a lock exists at a time, so no other reference to the value exists.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.before_release();
        if self.lock.threaded {
            // Release pairs with the Acquire in try_lock and lock_as.
            self.lock.held.store(false, Ordering::Release);
        }
    }
}
