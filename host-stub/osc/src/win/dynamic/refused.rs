//! Puts and gets with keys that may have ended ([`super::attempts`]): those under way, and those that targets refused.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plugin_api::{Endpoint, Handle, Module, Status};

use crate::win::pending::Cell;

/// A put or get that is under way with a key that may have ended.
pub(super) struct Attempt {
    pub(super) rank: usize,
    pub(super) puts: bool,
    pub(super) local: *mut u8,
    pub(super) remote: u64,
    pub(super) size: usize,
    /// Counts it.
    pub(super) cell: NonNull<Cell>,
    /// Where it goes if it is refused.
    pub(super) refused: NonNull<Refused>,
}

// SAFETY: the buffer is the operation's until it is complete; the rest belongs to the window, which lives while it counts the operation.
unsafe impl Send for Attempt {}

/// Puts and gets of a window that their targets refused.
#[derive(Default)]
pub(in crate::win) struct Refused {
    /// How many there are, so that waits need not lock.
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

    /// Whether there is one to a rank. A relaxed load suffices: a wait asks again.
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

    /// Gives up all of them: the next flushes of their targets fail.
    pub(in crate::win) fn give_up(&self) {
        let attempts = std::mem::take(&mut *self.lock());
        self.count.store(0, Ordering::Relaxed);
        for attempt in attempts {
            // SAFETY: the cell belongs to the window, and counts the attempt.
            unsafe { attempt.cell.as_ref() }.finish(Status::PERM.0);
        }
    }
}

/// Ends an attempt, which is the `context`, or leaves it to a flush.
pub(super) unsafe extern "C" fn tried(
    _module: *mut Module,
    _endpoint: *mut Endpoint,
    _local_address: *mut c_void,
    _local_handle: *mut Handle,
    context: *mut c_void,
    _data: *mut c_void,
    status: i32,
) {
    // SAFETY: made by `attempts`, which left it to this call.
    let attempt = *unsafe { Box::from_raw(context.cast::<Attempt>()) };
    let Attempt { cell, refused, .. } = attempt;
    if Status(status) == Status::PERM {
        // SAFETY: it belongs to the window, which lives while it counts the attempt.
        unsafe { refused.as_ref() }.add(attempt);
        return;
    }
    // SAFETY: as above. Last, because the window may be freed once its counts are down.
    unsafe { cell.as_ref() }.finish(status);
}
