//! Assertions about an epoch, and the states of a window at one rank.

use bitflags::bitflags;

bitflags! {
    /// A caller's promises about an epoch (MPI_MODE_*), by which work can be left out.
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

/// The kind of a target's lock.
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
pub(in crate::win) enum Access {
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
    /// A lock by assertion: nothing was taken, nothing is given back.
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
    /// Operations of this rank must be completed.
    pub complete: bool,
    /// Ranks must meet.
    pub meet: bool,
}
