//! The public synchronisation calls: they keep the epochs, and go through the window's table.

use super::btl::passive;
use super::epoch::{Assertion, Held, LockKind};
use super::error::{WinError, WinResult};
use super::window::Window;

fn only(call: &'static str, given: Assertion, allowed: Assertion) -> WinResult<()> {
    if allowed.contains(given) {
        return Ok(());
    }
    Err(Box::new(WinError::BadArgument {
        call,
        reason: format!("assertion {:?} means nothing here", given - allowed),
    }))
}

impl Window {
    /// Ends the open fence epoch and begins the next. Collective. Completes this rank's operations, and returns when
    /// all operations of other ranks to this rank are complete.
    pub fn fence(&self, assertion: Assertion) -> WinResult<()> {
        let _entered = self.link.enter("fence")?;
        only("fence", assertion, Assertion::all() - Assertion::NOCHECK)?;
        let plan = self.epochs.fence_begin(assertion)?;
        let fenced = (self.table.fence)(self, plan, assertion);
        self.epochs.fence_end(assertion);
        fenced
    }

    /// Opens an access epoch to one rank. Returns when the lock is held, or at once with
    /// [`Assertion::NOCHECK`].
    pub fn lock(&self, kind: LockKind, rank: usize, assertion: Assertion) -> WinResult<()> {
        let mut entered = self.link.enter("lock")?;
        self.link.about(&mut entered, rank);
        self.may_lock("lock")?;
        only("lock", assertion, Assertion::NOCHECK)?;
        self.peer("lock", rank)?;
        self.link.check_lost("lock", Some(rank))?;
        self.epochs.lock_begin(rank, self.link.rank)?;
        if assertion.contains(Assertion::NOCHECK) {
            self.epochs.lock_end(rank, Held::Unchecked);
            return Ok(());
        }
        let locked = (self.table.lock)(self, rank, kind);
        let held = match (&locked, kind) {
            (Err(_), _) => Held::Nothing,
            (Ok(()), LockKind::Shared) => Held::Shared,
            (Ok(()), LockKind::Exclusive) => Held::Exclusive,
        };
        self.epochs.lock_end(rank, held);
        locked
    }

    fn may_lock(&self, call: &'static str) -> WinResult<()> {
        if !self.rules.now().no_locks {
            return Ok(());
        }
        Err(Box::new(WinError::BadArgument {
            call,
            reason: "the window's info says no_locks".to_owned(),
        }))
    }

    /// Completes operations to a rank, and closes the epoch that [`lock`](Self::lock) opened.
    pub fn unlock(&self, rank: usize) -> WinResult<()> {
        let mut entered = self.link.enter("unlock")?;
        self.link.about(&mut entered, rank);
        self.peer("unlock", rank)?;
        let held = match self.epochs.unlock_begin(rank)? {
            Held::Shared => Some(LockKind::Shared),
            Held::Exclusive => Some(LockKind::Exclusive),
            _ => None,
        };
        let unlocked = (self.table.unlock)(self, rank, held);
        self.epochs.unlock_end(rank);
        unlocked
    }

    /// Opens an access epoch to every rank, with shared locks.
    pub fn lock_all(&self, assertion: Assertion) -> WinResult<()> {
        let _entered = self.link.enter("lock_all")?;
        self.may_lock("lock_all")?;
        only("lock_all", assertion, Assertion::NOCHECK)?;
        self.link.check_lost("lock_all", None)?;
        self.epochs.lock_all_begin()?;
        let (locked, held) = if assertion.contains(Assertion::NOCHECK) {
            (Ok(()), Held::Unchecked)
        } else {
            ((self.table.lock_all)(self), Held::Shared)
        };
        self.epochs.lock_all_end(locked.is_ok().then_some(held));
        locked
    }

    /// Completes all operations, and closes the epoch that [`lock_all`](Self::lock_all) opened.
    pub fn unlock_all(&self) -> WinResult<()> {
        let _entered = self.link.enter("unlock_all")?;
        let held = self.epochs.unlock_all_begin()?;
        let unlocked = (self.table.unlock_all)(self, held == Held::Shared);
        self.epochs.unlock_all_end();
        unlocked
    }

    /// Completes this rank's operations to a rank, at the origin and at the target. In lock and lock_all epochs.
    #[inline]
    pub fn flush(&self, rank: usize) -> WinResult<()> {
        // In most calls nothing remains after the table's function, so the compiler makes a tail call.
        let free = self.direct.flush || self.link.enters_freely();
        let plain = free && self.epochs.is_locked_all();
        if plain && let Some(peer) = self.parts.peers.made(rank) {
            return match self.link.is_quiet() {
                true if self.direct.flush => passive::flush_peer(self, "flush", peer),
                true => (self.table.flush)(self, "flush", rank),
                false => self.flush_and_look(rank),
            };
        }
        self.flush_checked(rank)
    }

    /// A flush that also checks for lost ranks.
    #[cold]
    #[inline(never)]
    fn flush_and_look(&self, rank: usize) -> WinResult<()> {
        let flushed = (self.table.flush)(self, "flush", rank);
        flushed.and(self.link.check_now("flush", Some(rank)))
    }

    #[inline(never)]
    fn flush_checked(&self, rank: usize) -> WinResult<()> {
        let call = "flush";
        let _entered = self.link.enter(call)?;
        self.peer(call, rank)?;
        self.epochs.check_flush(call, Some(rank))?;
        let flushed = (self.table.flush)(self, call, rank);
        flushed.and(self.link.check_lost(call, Some(rank)))
    }

    /// Completes this rank's operations to all ranks, at the origin and at the targets. In lock and lock_all epochs.
    pub fn flush_all(&self) -> WinResult<()> {
        let call = "flush_all";
        let _entered = self.link.enter(call)?;
        self.epochs.check_flush(call, None)?;
        let flushed = (self.table.flush_all)(self, call);
        flushed.and(self.link.check_lost(call, None))
    }

    /// Completes this rank's operations to a rank at the origin: their buffers may be reused.
    pub fn flush_local(&self, rank: usize) -> WinResult<()> {
        let call = "flush_local";
        let _entered = self.link.enter(call)?;
        self.peer(call, rank)?;
        self.epochs.check_flush(call, Some(rank))?;
        (self.table.flush_local)(self, call, rank)
    }

    /// Completes this rank's operations to all ranks at the origin: their buffers may be reused.
    pub fn flush_local_all(&self) -> WinResult<()> {
        let call = "flush_local_all";
        let _entered = self.link.enter(call)?;
        self.epochs.check_flush(call, None)?;
        (self.table.flush_local_all)(self, call)
    }

    fn check_group(&self, call: &'static str, group: &[usize]) -> WinResult<()> {
        let mut ranks = group.to_vec();
        ranks.sort_unstable();
        if let Some(largest) = ranks.last() {
            self.peer(call, *largest)?;
        }
        match ranks.windows(2).find(|pair| pair[0] == pair[1]) {
            None => Ok(()),
            Some(pair) => Err(Box::new(WinError::BadArgument {
                call,
                reason: format!("rank {} is in the group twice", pair[0]),
            })),
        }
    }

    /// Opens an access epoch to a group of ranks. Returns when each rank has posted, or at once with
    /// [`Assertion::NOCHECK`]; the posts must then have this assertion too.
    pub fn start(&self, group: &[usize], assertion: Assertion) -> WinResult<()> {
        let _entered = self.link.enter("start")?;
        only("start", assertion, Assertion::NOCHECK)?;
        self.check_group("start", group)?;
        self.epochs.start_begin()?;
        let started = (self.table.start)(self, group, assertion);
        match &started {
            Ok(()) => {
                *self.group() = group.to_vec();
                self.epochs.start_end(Some(group));
            }
            Err(_) => self.epochs.start_end(None),
        }
        started
    }

    /// Completes this rank's operations to the group of [`start`](Self::start), notifies the group, and closes the
    /// epoch.
    pub fn complete(&self) -> WinResult<()> {
        let _entered = self.link.enter("complete")?;
        self.epochs.complete_begin()?;
        let group = std::mem::take(&mut *self.group());
        let completed = (self.table.complete)(self, &group);
        self.epochs.complete_end(&group);
        completed
    }

    /// Opens this rank's memory to a group of ranks without waiting for them. A call that fails opens nothing.
    pub fn post(&self, group: &[usize], assertion: Assertion) -> WinResult<()> {
        let _entered = self.link.enter("post")?;
        let allowed = Assertion::NOCHECK | Assertion::NOSTORE | Assertion::NOPUT;
        only("post", assertion, allowed)?;
        self.check_group("post", group)?;
        self.epochs.post_begin(self.link.rank)?;
        let posted = (self.table.post)(self, group, assertion);
        if posted.is_err() {
            self.epochs.exposure_end();
        }
        posted
    }

    /// Waits until the whole group of [`post`](Self::post) has completed, and closes the exposure. A failed wait
    /// closes the exposure too: a rank of the group is lost, and another wait would be in vain.
    pub fn wait(&self) -> WinResult<()> {
        let _entered = self.link.enter("wait")?;
        self.epochs.check_exposed("wait")?;
        let waited = (self.table.wait)(self);
        self.epochs.exposure_end();
        waited
    }

    /// Whether the whole group of [`post`](Self::post) has completed. If the group has completed, or if the
    /// call fails, closes the exposure.
    pub fn test(&self) -> WinResult<bool> {
        let _entered = self.link.enter("test")?;
        self.epochs.check_exposed("test")?;
        let tested = (self.table.test)(self);
        if !matches!(tested, Ok(false)) {
            self.epochs.exposure_end();
        }
        tested
    }

    /// Orders this rank's local accesses of its memory with the accesses of other ranks, and makes progress.
    pub fn sync(&self) -> WinResult<()> {
        let _entered = self.link.enter("sync")?;
        (self.table.sync)(self)
    }
}
