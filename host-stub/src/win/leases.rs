//! Registrations of callers' buffers that operations to one target use, held until a flush.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::registrations::Lease;

/// The leases. One is added after the operations that use it were counted, and taken before a flush
/// begins to wait, so what a flush took has ended with it.
#[derive(Default)]
pub(super) struct Leases {
    /// Whether there is any, for flushes that have nothing to do with them.
    any: AtomicBool,
    held: Mutex<Vec<Lease>>,
}

impl Leases {
    fn lock(&self) -> MutexGuard<'_, Vec<Lease>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds one whose operations have been issued; says how many are held.
    pub(super) fn hold(&self, lease: Lease) -> usize {
        let mut held = self.lock();
        if !held.last().is_some_and(|last| last.is_same(&lease)) {
            held.push(lease);
        }
        // The lock guards the list; this pairs with the Acquire in `is_any`. A flush by this thread always sees the flag.
        // Another thread's flush may miss it, and leaves the lease to a later flush.
        self.any.store(true, Ordering::Release);
        held.len()
    }

    /// Whether there is any for a flush to take.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        // Acquire as said at `hold`.
        self.any.load(Ordering::Acquire)
    }

    /// All of them, for a flush that is about to wait.
    #[inline]
    pub(super) fn take(&self) -> Vec<Lease> {
        if !self.is_any() {
            return Vec::new();
        }
        self.take_some()
    }

    #[cold]
    fn take_some(&self) -> Vec<Lease> {
        let mut held = self.lock();
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut *held)
    }

    /// Holds them again: the flush failed, and operations may still use them.
    #[cold]
    pub(super) fn give_back(&self, mut leases: Vec<Lease>) {
        if leases.is_empty() {
            return;
        }
        self.lock().append(&mut leases);
        self.any.store(true, Ordering::Release);
    }
}

impl Drop for Leases {
    fn drop(&mut self) {
        // A window that is freed was flushed. What is left belongs to operations of a job that
        // failed, which may still use it.
        std::mem::forget(self.take());
    }
}
