//! The state machine of one window's epochs at one rank. The state machine only decides which calls
//! are allowed and records the open epochs; other modules do the synchronisation.
//!
//! Communication calls query the state without a lock, by atomic loads. Synchronisation calls
//! change the state in two steps, `begin` and `end`, because they wait in between. Between the
//! steps the state is "in a synchronisation call", and any other call is refused.

mod locks;
mod state;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use super::error::{WinError, WinResult};
pub(super) use state::{Access, Held};
pub use state::{Assertion, FencePlan, LockKind};

/// The epochs of one window at one rank. Any thread may call.
pub(super) struct Epochs {
    access: AtomicU8,
    held: Box<[AtomicU8]>,
    /// Targets locked one by one.
    locks: AtomicUsize,
    /// Held while `locks` and a lock epoch begin or end together.
    transitions: Mutex<()>,
    /// Whether an exposure epoch is open: a post without its wait.
    exposed: AtomicU8,
    /// Whether the last fence asserted that no rank puts to this rank.
    no_put: AtomicU8,
}

impl Epochs {
    pub(super) fn new(size: usize) -> Self {
        Epochs {
            access: AtomicU8::new(Access::None as u8),
            held: (0..size).map(|_| AtomicU8::new(0)).collect(),
            locks: AtomicUsize::new(0),
            transitions: Mutex::new(()),
            exposed: AtomicU8::new(0),
            no_put: AtomicU8::new(0),
        }
    }

    pub(super) fn access(&self) -> Access {
        Access::of(self.access.load(Ordering::Acquire))
    }

    fn held(&self, rank: usize) -> Held {
        self.held
            .get(rank)
            .map_or(Held::Nothing, |held| Held::of(held.load(Ordering::Acquire)))
    }

    fn set_held(&self, rank: usize, to: Held) {
        if let Some(held) = self.held.get(rank) {
            held.store(to as u8, Ordering::Release);
        }
    }

    fn misuse<T>(&self, call: &'static str, state: Access) -> WinResult<T> {
        Err(Box::new(WinError::EpochMisuse {
            call,
            state: if self.is_exposed() && state == Access::None {
                "an exposure epoch (post)"
            } else {
                state.name()
            },
        }))
    }

    /// Changes the state from one of `from` to `to`; refuses any other state.
    fn change(&self, call: &'static str, from: &[Access], to: Access) -> WinResult<Access> {
        let mut current = self.access.load(Ordering::Acquire);
        loop {
            if !from.contains(&Access::of(current)) {
                return self.misuse(call, Access::of(current));
            }
            match self.access.compare_exchange_weak(
                current,
                to as u8,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Ok(Access::of(current)),
                Err(found) => current = found,
            }
        }
    }

    /// Whether a communication call to `rank` is allowed now. `rank` exists.
    #[inline(always)]
    pub(super) fn check_access(&self, call: &'static str, rank: usize) -> WinResult<()> {
        // The states are compared as numbers, because a match on all states would become a jump
        // through a table.
        let access = self.access.load(Ordering::Acquire);
        if access == Access::LockedAll as u8 || access == Access::Fence as u8 {
            return Ok(());
        }
        let by_target = access == Access::Locked as u8 || access == Access::Started as u8;
        if by_target && self.is_held(rank) {
            return Ok(());
        }
        self.check_access_slow(call, rank, Access::of(access))
    }

    /// Whether a communication call to `rank` is allowed now without a change of the state. The answer is false for a
    /// few allowed calls, too.
    #[inline(always)]
    pub(super) fn includes(&self, rank: usize) -> bool {
        let access = self.access.load(Ordering::Acquire);
        access == Access::LockedAll as u8
            || access == Access::Fence as u8 && !self.refuses_puts()
            || (access == Access::Locked as u8 || access == Access::Started as u8)
                && self.is_held(rank)
    }

    #[inline(always)]
    fn is_held(&self, rank: usize) -> bool {
        self.held.get(rank).is_some_and(|held| {
            let held = held.load(Ordering::Acquire);
            held != Held::Nothing as u8 && held != Held::Acquiring as u8
        })
    }

    #[cold]
    #[inline(never)]
    fn check_access_slow(&self, call: &'static str, rank: usize, found: Access) -> WinResult<()> {
        match found {
            Access::Fenced => self
                .change(call, &[Access::Fenced, Access::Fence], Access::Fence)
                .map(drop),
            Access::Locked | Access::Started => Err(Box::new(WinError::WrongTarget {
                call,
                rank,
                epoch: found.name(),
            })),
            Access::Changing => self.misuse(call, found),
            _ => Err(Box::new(WinError::OutsideEpoch { call, rank })),
        }
    }

    /// Whether a request form to `rank` is allowed now.
    #[inline]
    pub(super) fn check_request(&self, call: &'static str, rank: usize) -> WinResult<()> {
        match self.access() {
            Access::LockedAll => Ok(()),
            Access::Locked if self.is_held(rank) => Ok(()),
            Access::Locked => self.check_access_slow(call, rank, Access::Locked),
            Access::None => Err(Box::new(WinError::OutsideEpoch { call, rank })),
            _ => Err(Box::new(WinError::NotPassive { call, rank })),
        }
    }

    /// Whether all ranks are locked together.
    #[inline(always)]
    pub(super) fn is_locked_all(&self) -> bool {
        self.access.load(Ordering::Acquire) == Access::LockedAll as u8
    }

    /// Whether a flush of `rank` (or of all ranks) is allowed now.
    #[inline(always)]
    pub(super) fn check_flush(&self, call: &'static str, rank: Option<usize>) -> WinResult<()> {
        if self.is_locked_all() {
            return Ok(());
        }
        self.check_flush_slow(call, rank)
    }

    #[inline(never)]
    fn check_flush_slow(&self, call: &'static str, rank: Option<usize>) -> WinResult<()> {
        match (self.access(), rank) {
            (Access::LockedAll, _) | (Access::Locked, None) => Ok(()),
            (Access::Locked, Some(rank)) if self.is_held(rank) => Ok(()),
            (Access::Locked, Some(rank)) => self.check_access_slow(call, rank, Access::Locked),
            (state, _) => self.misuse(call, state),
        }
    }

    /// Whether the last fence promised that no rank puts to this rank.
    #[inline]
    pub(super) fn refuses_puts(&self) -> bool {
        self.no_put.load(Ordering::Relaxed) != 0
    }

    pub(super) fn fence_begin(&self, assertion: Assertion) -> WinResult<FencePlan> {
        let call = "fence";
        if self.is_exposed() {
            return Err(Box::new(WinError::EpochMisuse {
                call,
                state: "an exposure epoch (post)",
            }));
        }
        let from: &[Access] = if assertion.contains(Assertion::NOPRECEDE) {
            // A fence that ends no sequence of calls cannot follow calls.
            &[Access::None, Access::Fenced]
        } else {
            &[Access::None, Access::Fenced, Access::Fence]
        };
        self.change(call, from, Access::Changing)?;
        let precede = !assertion.contains(Assertion::NOPRECEDE);
        let succeed = !assertion.contains(Assertion::NOSUCCEED);
        Ok(FencePlan {
            complete: precede,
            // A fence without calls before and after it orders nothing.
            meet: precede || succeed,
        })
    }

    pub(super) fn fence_end(&self, assertion: Assertion) {
        let no_put = assertion.contains(Assertion::NOPUT);
        self.no_put.store(u8::from(no_put), Ordering::Relaxed);
        let to = if assertion.contains(Assertion::NOSUCCEED) {
            Access::None
        } else {
            Access::Fenced
        };
        self.access.store(to as u8, Ordering::Release);
    }

    pub(super) fn start_begin(&self) -> WinResult<()> {
        self.change("start", &[Access::None, Access::Fenced], Access::Changing)?;
        self.no_put.store(0, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn start_end(&self, group: Option<&[usize]>) {
        for rank in group.unwrap_or_default() {
            self.set_held(*rank, Held::Started);
        }
        let to = match group {
            Some(_) => Access::Started,
            None => Access::None,
        };
        self.access.store(to as u8, Ordering::Release);
    }

    pub(super) fn complete_begin(&self) -> WinResult<()> {
        self.change("complete", &[Access::Started], Access::Changing)
            .map(drop)
    }

    pub(super) fn complete_end(&self, group: &[usize]) {
        for rank in group {
            self.set_held(*rank, Held::Nothing);
        }
        self.access.store(Access::None as u8, Ordering::Release);
    }

    pub(super) fn is_exposed(&self) -> bool {
        self.exposed.load(Ordering::Acquire) != 0
    }

    pub(super) fn post_begin(&self, own: usize) -> WinResult<()> {
        let call = "post";
        let state = self.access();
        let locked_self = self.held(own) != Held::Nothing && state != Access::Started;
        if matches!(state, Access::Fence | Access::LockedAll) || locked_self {
            return self.misuse(call, state);
        }
        if self.exposed.swap(1, Ordering::AcqRel) != 0 {
            return Err(Box::new(WinError::EpochMisuse {
                call,
                state: "an exposure epoch (post) that was not waited for",
            }));
        }
        // An exposure by post ends the fence's unused epoch.
        let _ = self.access.compare_exchange(
            Access::Fenced as u8,
            Access::None as u8,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        Ok(())
    }

    pub(super) fn check_exposed(&self, call: &'static str) -> WinResult<()> {
        if self.is_exposed() {
            Ok(())
        } else {
            Err(Box::new(WinError::EpochMisuse {
                call,
                state: "no exposure epoch",
            }))
        }
    }

    pub(super) fn exposure_end(&self) {
        self.exposed.store(0, Ordering::Release);
    }

    /// Begins to free the window; refused if an epoch is open.
    pub(super) fn free_begin(&self) -> WinResult<()> {
        let call = "free";
        if self.is_exposed() {
            return Err(Box::new(WinError::EpochMisuse {
                call,
                state: "an exposure epoch (post)",
            }));
        }
        self.change(call, &[Access::None, Access::Fenced], Access::Changing)
            .map(drop)
    }

    /// Ends the step of `free_begin`: no epoch is open.
    pub(super) fn free_end(&self) {
        self.access.store(Access::None as u8, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
