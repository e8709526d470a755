//! Lock and lock_all epochs.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use super::{Access, Epochs, Held};
use crate::win::error::{WinError, WinResult};

impl Epochs {
    pub(in crate::win) fn lock_begin(&self, rank: usize, own: usize) -> WinResult<()> {
        let call = "lock";
        if rank == own && self.is_exposed() {
            return Err(Box::new(WinError::EpochMisuse {
                call,
                state: "an exposure epoch (post), and the target is this rank",
            }));
        }
        // Calls to other locked targets continue while this target is added, so a lock changes
        // directly to its final state; the mutex keeps the last unlock from closing the epoch in
        // between.
        let _transition = self.transition();
        if self.access() != Access::Locked {
            self.change(call, &[Access::None, Access::Fenced], Access::Locked)?;
        } else if self.held(rank) != Held::Nothing {
            return Err(Box::new(WinError::LockState {
                call,
                rank,
                reason: "it is locked already",
            }));
        }
        self.no_put.store(0, Ordering::Relaxed);
        self.set_held(rank, Held::Acquiring);
        self.locks.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    fn transition(&self) -> MutexGuard<'_, ()> {
        self.transitions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::win) fn lock_end(&self, rank: usize, held: Held) {
        self.set_held(rank, held);
        if held == Held::Nothing {
            self.lock_gone();
        }
    }

    fn lock_gone(&self) {
        let _transition = self.transition();
        if self.locks.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.access.store(Access::None as u8, Ordering::Release);
        }
    }

    /// Takes the lock held at `rank`: until [`unlock_end`](Self::unlock_end) no call to that rank
    /// is allowed, and of two threads that unlock it one is refused.
    pub(in crate::win) fn unlock_begin(&self, rank: usize) -> WinResult<Held> {
        let call = "unlock";
        let state = self.access();
        if state != Access::Locked {
            return self.misuse(call, state);
        }
        let held = self.held(rank);
        let taken = self.is_held(rank)
            && self.held.get(rank).is_some_and(|place| {
                place
                    .compare_exchange(
                        held as u8,
                        Held::Acquiring as u8,
                        Ordering::AcqRel,
                        Ordering::Relaxed,
                    )
                    .is_ok()
            });
        if taken {
            return Ok(held);
        }
        Err(Box::new(WinError::LockState {
            call,
            rank,
            reason: "it is not locked",
        }))
    }

    pub(in crate::win) fn unlock_end(&self, rank: usize) {
        self.set_held(rank, Held::Nothing);
        self.lock_gone();
    }

    pub(in crate::win) fn lock_all_begin(&self) -> WinResult<()> {
        let call = "lock_all";
        if self.is_exposed() {
            return Err(Box::new(WinError::EpochMisuse {
                call,
                state: "an exposure epoch (post)",
            }));
        }
        self.change(call, &[Access::None, Access::Fenced], Access::Changing)?;
        self.no_put.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// Whether a lock or lock_all epoch is open.
    pub(in crate::win) fn has_locks(&self) -> bool {
        matches!(self.access(), Access::Locked | Access::LockedAll)
    }

    pub(in crate::win) fn lock_all_end(&self, held: Option<Held>) {
        let to = match held {
            Some(held) => {
                for rank in 0..self.held.len() {
                    self.set_held(rank, held);
                }
                Access::LockedAll
            }
            None => Access::None,
        };
        self.access.store(to as u8, Ordering::Release);
    }

    pub(in crate::win) fn unlock_all_begin(&self) -> WinResult<Held> {
        self.change("unlock_all", &[Access::LockedAll], Access::Changing)?;
        Ok(self.held(0))
    }

    pub(in crate::win) fn unlock_all_end(&self) {
        for rank in 0..self.held.len() {
            self.set_held(rank, Held::Nothing);
        }
        self.access.store(Access::None as u8, Ordering::Release);
    }
}
