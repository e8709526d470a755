//! Puts and gets with keys that may have ended ([`super::attempts`]): the outstanding ones, and those that targets refused.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plugin_api::{Endpoint, Handle, Module, Status};

use crate::win::pending::Cell;

/// An outstanding put or get with a key that may have ended.
pub(super) struct Attempt {
    pub(super) rank: usize,
    pub(super) puts: bool,
    pub(super) local: *mut u8,
    pub(super) remote: u64,
    pub(super) size: usize,
    /// Counts the attempt.
    pub(super) cell: NonNull<Cell>,
    /// Receives the attempt if the target refuses it.
    pub(super) refused: NonNull<Refused>,
}

// SAFETY: the buffer belongs to the operation until completion; the rest belongs to the window, which lives while it counts the
// operation.
unsafe impl Send for Attempt {}

/// Puts and gets of a window that were refused by their targets.
#[derive(Default)]
pub(in crate::win) struct Refused {
    /// Number of refused attempts, so that waits need not lock.
    count: AtomicUsize,
    attempts: Mutex<Vec<Attempt>>,
}

impl Refused {
    fn lock(&self) -> MutexGuard<'_, Vec<Attempt>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, attempt: Attempt) {
        let mut attempts = self.lock();
        attempts.push(attempt);
        self.count.store(attempts.len(), Ordering::Relaxed);
    }

    /// Whether an attempt to `rank` was refused. A relaxed load suffices: a wait asks again.
    pub(super) fn has(&self, rank: usize) -> bool {
        self.count.load(Ordering::Relaxed) > 0 && self.lock().iter().any(|a| a.rank == rank)
    }

    pub(super) fn take(&self, rank: usize) -> Option<Attempt> {
        let mut attempts = self.lock();
        let at = attempts.iter().position(|a| a.rank == rank)?;
        let attempt = attempts.swap_remove(at);
        self.count.store(attempts.len(), Ordering::Relaxed);
        Some(attempt)
    }

    /// Gives up all attempts: the next flushes of their targets fail.
    pub(in crate::win) fn give_up(&self) {
        let attempts = std::mem::take(&mut *self.lock());
        self.count.store(0, Ordering::Relaxed);
        for attempt in attempts {
            // SAFETY: the cell belongs to the window, and counts the attempt.
            unsafe { attempt.cell.as_ref() }.finish(Status::PERM.0);
        }
    }
}

/// Callback of an attempt, which is the `context`: ends it, or leaves a refused one to a flush.
pub(super) unsafe extern "C" fn tried(
    _module: *mut Module,
    _endpoint: *mut Endpoint,
    _local_address: *mut c_void,
    _local_handle: *mut Handle,
    context: *mut c_void,
    _data: *mut c_void,
    status: i32,
) {
    // SAFETY: `attempts` made the box and passed it to this call.
    let attempt = *unsafe { Box::from_raw(context.cast::<Attempt>()) };
    let Attempt { cell, refused, .. } = attempt;
    if Status(status) == Status::PERM {
        // SAFETY: `refused` belongs to the window, which lives while it counts the attempt.
        unsafe { refused.as_ref() }.add(attempt);
        return;
    }
    // SAFETY: the cell belongs to the window, which counts the attempt. Last, because the window may be freed once its counts
    // are zero.
    unsafe { cell.as_ref() }.finish(status);
}
