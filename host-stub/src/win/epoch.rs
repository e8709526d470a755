//! The state machine of one window's epochs at one rank. Pure bookkeeping: it says what is allowed
//! and remembers what is open; the synchronisation itself is done elsewhere.
//!
//! Communication calls ask it without a lock, by atomic loads. Synchronisation calls change it in
//! two steps, `begin` and `end`, because they wait in between; while one is between its steps the
//! state is "in a synchronisation call" and any other call is refused.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bitflags::bitflags;

use super::error::{WinError, WinResult};

bitflags! {
    /// What a caller promises about an epoch (MPI_MODE_*), so that work can be left out.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct Assertion: u32 {
        /// No conflicting lock is held or asked for, or: the matching post or start is known to
        /// have been called. Of lock, lock_all, start and post.
        const NOCHECK = 1;
        /// The window's memory was not stored to locally since the last synchronisation. Of fence
        /// and post.
        const NOSTORE = 2;
        /// The window's memory is not updated by puts or accumulates until the next
        /// synchronisation. Of fence and post.
        const NOPUT = 4;
        /// This fence ends no sequence of communication calls. Of fence, on every rank alike.
        const NOPRECEDE = 8;
        /// This fence begins no sequence of communication calls. Of fence, on every rank alike.
        const NOSUCCEED = 16;
    }
}

/// How a target is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Alongside other shared locks.
    Shared,
    /// Alone.
    Exclusive,
}

/// The access epoch that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Access {
    None = 0,
    /// A fence opened an epoch in which nothing was called yet, so another kind may still open.
    Fenced = 1,
    Fence = 2,
    Started = 3,
    Locked = 4,
    LockedAll = 5,
    /// A synchronisation call is between its two steps.
    Changing = 6,
}

impl Access {
    fn of(code: u8) -> Access {
        match code {
            0 => Access::None,
            1 => Access::Fenced,
            2 => Access::Fence,
            3 => Access::Started,
            4 => Access::Locked,
            5 => Access::LockedAll,
            _ => Access::Changing,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Access::None => "no access epoch",
            Access::Fenced => "a fence epoch without calls",
            Access::Fence => "a fence epoch",
            Access::Started => "a start epoch",
            Access::Locked => "a lock epoch",
            Access::LockedAll => "a lock_all epoch",
            Access::Changing => "in a synchronisation call",
        }
    }
}

/// What this rank holds at one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Held {
    Nothing = 0,
    Shared = 1,
    Exclusive = 2,
    /// A lock by assertion: nothing was taken, nothing is given back.
    Unchecked = 3,
    /// A lock call is waiting.
    Acquiring = 4,
    /// The target is in the group of a start.
    Started = 5,
}

impl Held {
    fn of(code: u8) -> Held {
        match code {
            0 => Held::Nothing,
            1 => Held::Shared,
            2 => Held::Exclusive,
            3 => Held::Unchecked,
            4 => Held::Acquiring,
            _ => Held::Started,
        }
    }
}

/// What a fence found, which says what it has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FencePlan {
    /// Operations of this rank must be completed.
    pub complete: bool,
    /// Ranks must meet.
    pub meet: bool,
}

/// The epochs of one window at one rank. Any thread may call.
pub(super) struct Epochs {
    access: AtomicU8,
    held: Box<[AtomicU8]>,
    /// Targets locked one by one.
    locks: AtomicUsize,
    /// Held while `locks` and a lock epoch begin or end together.
    transitions: Mutex<()>,
    /// Whether a post is not yet waited for.
    exposed: AtomicU8,
    /// Whether the last fence asserted that nothing is put to this rank.
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
        Err(WinError::EpochMisuse {
            call,
            state: if self.is_exposed() && state == Access::None {
                "an exposure epoch (post)"
            } else {
                state.name()
            },
        })
    }

    /// Moves from one of `from` to `to`; refuses otherwise.
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
    #[inline]
    pub(super) fn check_access(&self, call: &'static str, rank: usize) -> WinResult<()> {
        match self.access() {
            Access::Fence | Access::LockedAll => Ok(()),
            Access::Locked | Access::Started if self.is_held(rank) => Ok(()),
            other => self.check_access_slow(call, rank, other),
        }
    }

    #[inline]
    fn is_held(&self, rank: usize) -> bool {
        !matches!(self.held(rank), Held::Nothing | Held::Acquiring)
    }

    #[cold]
    #[inline(never)]
    fn check_access_slow(&self, call: &'static str, rank: usize, found: Access) -> WinResult<()> {
        match found {
            Access::Fenced => self
                .change(call, &[Access::Fenced, Access::Fence], Access::Fence)
                .map(drop),
            Access::Locked | Access::Started => Err(WinError::WrongTarget {
                call,
                rank,
                epoch: found.name(),
            }),
            Access::Changing => self.misuse(call, found),
            _ => Err(WinError::OutsideEpoch { call, rank }),
        }
    }

    /// Whether a request form to `rank` is allowed now.
    #[inline]
    pub(super) fn check_request(&self, call: &'static str, rank: usize) -> WinResult<()> {
        match self.access() {
            Access::LockedAll => Ok(()),
            Access::Locked if self.is_held(rank) => Ok(()),
            Access::Locked => self.check_access_slow(call, rank, Access::Locked),
            Access::None => Err(WinError::OutsideEpoch { call, rank }),
            _ => Err(WinError::NotPassive { call, rank }),
        }
    }

    /// Whether a flush of `rank` (or of all ranks) is allowed now.
    pub(super) fn check_flush(&self, call: &'static str, rank: Option<usize>) -> WinResult<()> {
        match (self.access(), rank) {
            (Access::LockedAll, _) | (Access::Locked, None) => Ok(()),
            (Access::Locked, Some(rank)) if self.is_held(rank) => Ok(()),
            (Access::Locked, Some(rank)) => self.check_access_slow(call, rank, Access::Locked),
            (state, _) => self.misuse(call, state),
        }
    }

    /// Whether the last fence promised that nothing is put to this rank.
    #[inline]
    pub(super) fn refuses_puts(&self) -> bool {
        self.no_put.load(Ordering::Relaxed) != 0
    }

    pub(super) fn fence_begin(&self, assertion: Assertion) -> WinResult<FencePlan> {
        let call = "fence";
        if self.is_exposed() {
            return Err(WinError::EpochMisuse {
                call,
                state: "an exposure epoch (post)",
            });
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
            // Without calls before and after it a fence orders nothing.
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

    pub(super) fn lock_begin(&self, rank: usize, own: usize) -> WinResult<()> {
        let call = "lock";
        if rank == own && self.is_exposed() {
            return Err(WinError::EpochMisuse {
                call,
                state: "an exposure epoch (post), and the target is this rank",
            });
        }
        // Calls to targets locked before go on while this one is added, so a lock moves straight to
        // its state; the mutex keeps the last unlock from closing the epoch in between.
        let _transition = self.transition();
        if self.access() != Access::Locked {
            self.change(call, &[Access::None, Access::Fenced], Access::Locked)?;
        } else if self.held(rank) != Held::Nothing {
            return Err(WinError::LockState {
                call,
                rank,
                reason: "it is locked already",
            });
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

    pub(super) fn lock_end(&self, rank: usize, held: Held) {
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

    /// What is held at `rank`, which stays held until [`unlock_end`](Self::unlock_end).
    pub(super) fn unlock_begin(&self, rank: usize) -> WinResult<Held> {
        let call = "unlock";
        match self.access() {
            Access::Locked => match self.held(rank) {
                Held::Nothing | Held::Acquiring => Err(WinError::LockState {
                    call,
                    rank,
                    reason: "it is not locked",
                }),
                held => Ok(held),
            },
            state => self.misuse(call, state),
        }
    }

    pub(super) fn unlock_end(&self, rank: usize) {
        self.set_held(rank, Held::Nothing);
        self.lock_gone();
    }

    pub(super) fn lock_all_begin(&self) -> WinResult<()> {
        let call = "lock_all";
        if self.is_exposed() {
            return Err(WinError::EpochMisuse {
                call,
                state: "an exposure epoch (post)",
            });
        }
        self.change(call, &[Access::None, Access::Fenced], Access::Changing)?;
        self.no_put.store(0, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn lock_all_end(&self, held: Option<Held>) {
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

    pub(super) fn unlock_all_begin(&self) -> WinResult<Held> {
        self.change("unlock_all", &[Access::LockedAll], Access::Changing)?;
        Ok(self.held(0))
    }

    pub(super) fn unlock_all_end(&self) {
        for rank in 0..self.held.len() {
            self.set_held(rank, Held::Nothing);
        }
        self.access.store(Access::None as u8, Ordering::Release);
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
            return Err(WinError::EpochMisuse {
                call,
                state: "an exposure epoch (post) that was not waited for",
            });
        }
        // An exposure by post ends the fence's epoch, which nothing used.
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
            Err(WinError::EpochMisuse {
                call,
                state: "no exposure epoch",
            })
        }
    }

    pub(super) fn exposure_end(&self) {
        self.exposed.store(0, Ordering::Release);
    }

    /// Begins to free the window: nothing is open.
    pub(super) fn free_begin(&self) -> WinResult<()> {
        let call = "free";
        if self.is_exposed() {
            return Err(WinError::EpochMisuse {
                call,
                state: "an exposure epoch (post)",
            });
        }
        self.change(call, &[Access::None, Access::Fenced], Access::Changing)
            .map(drop)
    }

    /// Ends what `free_begin` began: no epoch is open.
    pub(super) fn free_end(&self) {
        self.access.store(Access::None as u8, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fence(epochs: &Epochs, assertion: Assertion) -> WinResult<FencePlan> {
        let plan = epochs.fence_begin(assertion)?;
        epochs.fence_end(assertion);
        Ok(plan)
    }

    fn lock(epochs: &Epochs, rank: usize) -> WinResult<()> {
        epochs.lock_begin(rank, 0)?;
        epochs.lock_end(rank, Held::Shared);
        Ok(())
    }

    #[test]
    fn nothing_is_allowed_outside_an_epoch() {
        let epochs = Epochs::new(2);
        assert!(matches!(
            epochs.check_access("put", 1),
            Err(WinError::OutsideEpoch { rank: 1, .. })
        ));
        assert!(epochs.check_request("rput", 1).is_err());
        assert!(epochs.check_flush("flush", None).is_err());
        assert!(epochs.unlock_begin(0).is_err());
        assert!(epochs.unlock_all_begin().is_err());
        assert!(epochs.complete_begin().is_err());
        assert!(epochs.check_exposed("wait").is_err());
        assert!(epochs.free_begin().is_ok());
    }

    #[test]
    fn a_fence_epoch_counts_only_once_something_is_called() {
        let epochs = Epochs::new(2);
        fence(&epochs, Assertion::empty()).unwrap();
        lock(&epochs, 1).unwrap();
        let held = epochs.unlock_begin(1).unwrap();
        assert_eq!(held, Held::Shared);
        epochs.unlock_end(1);
        assert!(epochs.check_access("put", 1).is_err());

        fence(&epochs, Assertion::empty()).unwrap();
        epochs.check_access("put", 1).unwrap();
        assert!(lock(&epochs, 1).is_err());
        assert!(epochs.lock_all_begin().is_err());
        assert!(epochs.start_begin().is_err());
        assert!(epochs.post_begin(0).is_err());
        assert!(epochs.check_request("rput", 1).is_err());
        assert!(epochs.free_begin().is_err());
        fence(&epochs, Assertion::NOSUCCEED).unwrap();
        assert!(epochs.check_access("put", 1).is_err());
    }

    #[test]
    fn fence_assertions_are_held_against_what_happened() {
        let epochs = Epochs::new(2);
        let plan = fence(&epochs, Assertion::NOPRECEDE).unwrap();
        assert_eq!(
            plan,
            FencePlan {
                complete: false,
                meet: true
            }
        );
        epochs.check_access("put", 1).unwrap();
        assert!(fence(&epochs, Assertion::NOPRECEDE).is_err());
        let plan = fence(&epochs, Assertion::NOSUCCEED).unwrap();
        assert_eq!(
            plan,
            FencePlan {
                complete: true,
                meet: true
            }
        );
        let both = Assertion::NOPRECEDE | Assertion::NOSUCCEED;
        assert!(!fence(&epochs, both).unwrap().meet);
        fence(&epochs, Assertion::NOPUT).unwrap();
        assert!(epochs.refuses_puts());
        fence(&epochs, Assertion::empty()).unwrap();
        assert!(!epochs.refuses_puts());
    }

    #[test]
    fn locks_cover_their_targets_only() {
        let epochs = Epochs::new(3);
        lock(&epochs, 1).unwrap();
        lock(&epochs, 2).unwrap();
        assert!(matches!(
            epochs.check_access("get", 0),
            Err(WinError::WrongTarget { rank: 0, .. })
        ));
        assert!(epochs.check_flush("flush", Some(0)).is_err());
        epochs.check_flush("flush", Some(1)).unwrap();
        epochs.check_request("rget", 2).unwrap();
        assert!(matches!(lock(&epochs, 1), Err(WinError::LockState { .. })));
        epochs.check_access("put", 1).unwrap();
        assert!(epochs.fence_begin(Assertion::empty()).is_err());
        epochs.unlock_begin(1).unwrap();
        epochs.unlock_end(1);
        assert!(epochs.unlock_begin(1).is_err());
        epochs.check_access("put", 2).unwrap();
        epochs.unlock_begin(2).unwrap();
        epochs.unlock_end(2);
        assert_eq!(epochs.access(), Access::None);
    }

    #[test]
    fn a_lock_that_failed_leaves_no_trace() {
        let epochs = Epochs::new(2);
        epochs.lock_begin(1, 0).unwrap();
        assert!(epochs.check_access("put", 1).is_err());
        epochs.lock_end(1, Held::Nothing);
        assert_eq!(epochs.access(), Access::None);
        lock(&epochs, 1).unwrap();
    }

    #[test]
    fn lock_all_excludes_every_other_access_epoch() {
        let epochs = Epochs::new(2);
        epochs.lock_all_begin().unwrap();
        assert!(epochs.check_access("put", 1).is_err());
        epochs.lock_all_end(Some(Held::Shared));
        epochs.check_access("put", 1).unwrap();
        epochs.check_flush("flush_all", None).unwrap();
        assert!(lock(&epochs, 1).is_err());
        assert!(epochs.lock_all_begin().is_err());
        assert!(epochs.start_begin().is_err());
        assert!(epochs.unlock_begin(1).is_err());
        assert_eq!(epochs.unlock_all_begin().unwrap(), Held::Shared);
        epochs.unlock_all_end();
        assert!(epochs.check_access("put", 1).is_err());
    }

    #[test]
    fn start_covers_its_group_and_post_may_overlap_it() {
        let epochs = Epochs::new(3);
        epochs.post_begin(0).unwrap();
        assert!(epochs.post_begin(0).is_err());
        epochs.start_begin().unwrap();
        epochs.start_end(Some(&[1]));
        epochs.check_access("put", 1).unwrap();
        assert!(epochs.check_access("put", 2).is_err());
        assert!(epochs.check_request("rput", 1).is_err());
        assert!(epochs.check_flush("flush", Some(1)).is_err());
        epochs.check_exposed("wait").unwrap();
        assert!(epochs.fence_begin(Assertion::empty()).is_err());
        epochs.complete_begin().unwrap();
        epochs.complete_end(&[1]);
        assert!(epochs.fence_begin(Assertion::empty()).is_err());
        assert!(epochs.lock_begin(0, 0).is_err());
        epochs.exposure_end();
        fence(&epochs, Assertion::empty()).unwrap();
    }
}
