//! Assertions about an epoch, and the states of a window at one rank.

use bitflags::bitflags;

bitflags! {
    /// A caller's promises about an epoch (MPI_MODE_*), by which work can be left out.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct Assertion: u32 {
        /// For lock and lock_all: no rank holds or requests a conflicting lock. For start and post:
        /// the matching call was made before.
        const NOCHECK = 1;
        /// For fence and post: this rank did not store to the window's memory since the last
        /// synchronisation.
        const NOSTORE = 2;
        /// For fence and post: puts and accumulates do not update the window's memory until the
        /// next synchronisation.
        const NOPUT = 4;
        /// For fence, the same on every rank: this fence ends no sequence of communication calls.
        const NOPRECEDE = 8;
        /// For fence, the same on every rank: this fence begins no sequence of communication calls.
        const NOSUCCEED = 16;
    }
}

/// The kind of a target's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Several ranks may hold the lock at the same time.
    Shared,
    /// One rank alone holds the lock.
    Exclusive,
}

/// The access epoch that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::win) enum Access {
    None = 0,
    /// A fence opened an epoch without calls so far, so an epoch of another kind may still open.
    Fenced = 1,
    Fence = 2,
    Started = 3,
    Locked = 4,
    LockedAll = 5,
    /// A synchronisation call is between its two steps.
    Changing = 6,
}

impl Access {
    pub(super) fn of(code: u8) -> Access {
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

    pub(super) const fn name(self) -> &'static str {
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

/// The lock that this rank holds at one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::win) enum Held {
    Nothing = 0,
    Shared = 1,
    Exclusive = 2,
    /// A lock by assertion: no lock was taken, and none is released.
    Unchecked = 3,
    /// A lock or unlock call is under way.
    Acquiring = 4,
    /// The target is in the group of a start.
    Started = 5,
}

impl Held {
    pub(super) fn of(code: u8) -> Held {
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

/// The state that a fence found, which decides its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FencePlan {
    /// Whether operations of this rank must be completed.
    pub complete: bool,
    /// Whether ranks must meet.
    pub meet: bool,
}
