//! Passive target: locks ([`lock_words`]) in control blocks, and flushes.
//!
//! A waiting rank checks the other processes of the window: if a holder was killed, the wait ends with an error.

use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use plugin_api::OpFlags;

use crate::win::control::{LOCK, LOCK_OF_ALL, Word};
use crate::win::epoch::LockKind;
use crate::win::error::WinResult;
use crate::win::lock_words::{self, LockWord, LockWords};
use crate::win::peer::Peer;
use crate::win::window::Window;

/// The rank that holds the lock word of all ranks.
const MASTER: usize = 0;

/// In a segment, tries of a lock between two of which the pause stays the same. The pauses grow, so that many waiters rarely
/// access the word.
pub(in crate::win) const SHARED_PACE: u32 = 4;

/// The lock words of a target, in control blocks.
struct Words<'a> {
    window: &'a Window,
    call: &'static str,
    master: &'a Peer,
    target: &'a Peer,
}

impl Words<'_> {
    fn of<'a>(window: &'a Window, call: &'static str, rank: usize) -> WinResult<Words<'a>> {
        Ok(Words {
            window,
            call,
            master: window.peer(call, MASTER)?,
            target: window.peer(call, rank)?,
        })
    }

    fn place(&self, word: LockWord) -> (&Peer, Word) {
        match word {
            LockWord::Master => (self.master, LOCK_OF_ALL),
            LockWord::Target => (self.target, LOCK),
        }
    }

    /// Sends released locks: other ranks wait for them, and this rank may make no progress for long.
    fn send(&self) -> WinResult<()> {
        self.window.send_posted(self.call)
    }

    /// Waits for a lock with `take`, which is given a function to wait between two tries.
    fn locked(
        &self,
        take: impl FnOnce(&mut dyn FnMut(u32) -> WinResult<()>) -> WinResult<()>,
    ) -> WinResult<()> {
        let mut waiter = self.window.link.tries(self.call);
        let pace = match self.window.parts.shared {
            Some(_) => SHARED_PACE,
            None => 1,
        };
        let taken = take(&mut |tries| waiter.back_off(tries / pace));
        if taken.is_err() {
            // Best effort: the first error is the one to return.
            let _ = self.send();
        }
        // Orders local accesses after the lock behind the writes of earlier holders.
        fence(Ordering::SeqCst);
        taken
    }
}

impl LockWords for Words<'_> {
    fn patience(&self) -> Duration {
        Duration::from_millis(match self.window.parts.shared {
            Some(_) => 5,
            None => 20,
        })
    }

    fn add(&self, word: LockWord, operand: u64) -> WinResult<u64> {
        let (peer, word) = self.place(word);
        self.window.add_word(self.call, peer, word, operand)
    }

    /// Does not wait for the answer, which carries no information. `free` waits for it, so the word lives
    /// until then.
    fn give(&self, word: LockWord, operand: u64) -> WinResult<()> {
        let (window, (peer, word)) = (self.window, self.place(word));
        let releases = &window.parts.sync.releases;
        window.add_unanswered(self.call, (peer, word, operand), releases)
    }

    fn swap_if(&self, word: LockWord, compare: u64, value: u64) -> WinResult<u64> {
        let (peer, word) = self.place(word);
        self.window
            .swap_word_if(self.call, peer, word, compare, value)
    }

    fn add_and_swap(&self, operand: u64, value: u64) -> [WinResult<u64>; 2] {
        let add = (self.master, LOCK_OF_ALL, operand);
        let swap = (self.target, LOCK, value);
        self.window.add_and_swap_words(self.call, add, swap)
    }
}

pub(super) fn lock(window: &Window, rank: usize, kind: LockKind) -> WinResult<()> {
    let call = "lock";
    let words = Words::of(window, call, rank)?;
    if kind == LockKind::Exclusive {
        // A try right after the release of the same lock would shut out all other ranks that want the lock.
        window.wait_pending_of(call, Some(rank), &window.parts.sync.releases)?;
    }
    words.locked(|back_off| match kind {
        LockKind::Shared => lock_words::lock_shared(&words, LockWord::Target, back_off),
        LockKind::Exclusive => lock_words::lock_alone(&words, back_off),
    })
}

pub(in crate::win) fn unlock(
    window: &Window,
    rank: usize,
    held: Option<LockKind>,
) -> WinResult<()> {
    let call = "unlock";
    let given = held == Some(LockKind::Shared) && give_behind(window, call, rank)?;
    let flushed = flush(window, call, rank);
    let Some(kind) = held else {
        // No lock is released here, so this fence orders earlier stores before later reads.
        fence(Ordering::SeqCst);
        return flushed;
    };
    let words = Words::of(window, call, rank)?;
    if given {
        return flushed.and(words.send());
    }
    let released = match kind {
        LockKind::Shared => lock_words::unlock_shared(&words, LockWord::Target),
        LockKind::Exclusive => lock_words::unlock_alone(&words),
    };
    flushed.and(released).and(words.send())
}

/// Releases a shared lock behind all operations to its target, in the message that carries the last of them. Returns `false`,
/// without an effect, if the transport cannot promise this order.
fn give_behind(window: &Window, call: &'static str, rank: usize) -> WinResult<bool> {
    let peer = window.peer(call, rank)?;
    window.send_gathered(call, peer);
    // Orders stores to the own memory, and to memory that is mapped here, before the release.
    fence(Ordering::SeqCst);
    let release = (peer, LOCK, lock_words::SHARED_ENDS);
    window.add_in_order(OpFlags::FENCE, call, release, &window.parts.sync.releases)
}

pub(super) fn lock_all(window: &Window) -> WinResult<()> {
    let words = Words::of(window, "lock_all", MASTER)?;
    words.locked(|back_off| lock_words::lock_shared(&words, LockWord::Master, back_off))
}

pub(in crate::win) fn unlock_all(window: &Window, held: bool) -> WinResult<()> {
    let call = "unlock_all";
    let flushed = flush_all(window, call);
    if !held {
        // As in `unlock`.
        fence(Ordering::SeqCst);
        return flushed;
    }
    let words = Words::of(window, call, MASTER)?;
    let released = lock_words::unlock_shared(&words, LockWord::Master);
    flushed.and(released).and(words.send())
}

pub(in crate::win) fn flush(window: &Window, call: &'static str, rank: usize) -> WinResult<()> {
    flush_peer(window, call, window.peer(call, rank)?)
}

/// As [`flush`], of a rank that exists.
#[inline(always)]
pub(in crate::win) fn flush_peer(
    window: &Window,
    call: &'static str,
    peer: &Peer,
) -> WinResult<()> {
    if !peer.is_settled() {
        if !peer.transfers.is_alone() {
            return settle(window, call, peer);
        }
        // Most operations are complete after one progress call, made here without preparing a wait. No
        // operation is added meanwhile.
        window.link.progress(call)?;
        if !peer.is_settled() {
            return settle(window, call, peer);
        }
    }
    fence(Ordering::AcqRel);
    Ok(())
}

/// Waits for outstanding operations to a target, and reports failures.
#[inline(never)]
fn settle(window: &Window, call: &'static str, peer: &Peer) -> WinResult<()> {
    window.send_gathered(call, peer);
    let transferred = window.flush_transfers(call, peer);
    let accumulated = window.flush_accumulates(call, peer);
    // Later code sees fetched data and data written to this rank's own memory. The transport guarantees that
    // other ranks see data that was put, so no stronger fence is needed here.
    fence(Ordering::AcqRel);
    transferred.and(accumulated)
}

pub(in crate::win) fn flush_all(window: &Window, call: &'static str) -> WinResult<()> {
    // Sends to all targets before it waits for any.
    window.send_all_gathered(call);
    let outcome = window.each_busy(|peer| flush(window, call, peer.rank));
    // As in `flush`, also if nothing was outstanding.
    fence(Ordering::AcqRel);
    outcome
}
