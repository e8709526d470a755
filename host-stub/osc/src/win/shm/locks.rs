//! Locks in the segment: the passive-target locks of each rank, and its lock for updates that the
//! processor's atomics do not serve.
//!
//! A waiting rank checks the other processes of the window: if a holder was killed, the wait ends
//! with an error. The holder's lock stays taken; the job cannot recover.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use crate::win::epoch::LockKind;
use crate::win::error::WinResult;
use crate::win::lock_words::{self, LockWord, LockWords};
use crate::win::window::Window;

/// The words of a rank's locks, and the word of locks of all ranks.
struct InSegment<'a> {
    master: &'a AtomicU64,
    target: &'a AtomicU64,
}

impl InSegment<'_> {
    fn of<'a>(window: &'a Window, call: &'static str, rank: usize) -> WinResult<InSegment<'a>> {
        let shared = window.shared(call)?;
        Ok(InSegment {
            master: shared.segment.word(shared.plan.lock_of_all()),
            target: shared.segment.word(shared.plan.lock(rank)),
        })
    }

    fn word(&self, word: LockWord) -> &AtomicU64 {
        match word {
            LockWord::Master => self.master,
            LockWord::Target => self.target,
        }
    }
}

// A lock's next holder sees the writes made under the lock: giving back is a Release, taking an
// Acquire.
impl LockWords for InSegment<'_> {
    const PATIENCE: Duration = Duration::from_millis(5);

    fn add(&self, word: LockWord, operand: u64) -> WinResult<u64> {
        Ok(self.word(word).fetch_add(operand, Ordering::AcqRel))
    }

    fn give(&self, word: LockWord, operand: u64) -> WinResult<()> {
        self.word(word).fetch_add(operand, Ordering::Release);
        Ok(())
    }

    fn swap_if(&self, word: LockWord, compare: u64, value: u64) -> WinResult<u64> {
        let swapped =
            self.word(word)
                .compare_exchange(compare, value, Ordering::AcqRel, Ordering::Relaxed);
        Ok(swapped.unwrap_or_else(|found| found))
    }
}

/// The pauses between checks of a lock: they grow, so that many waiters rarely access the word.
fn pauses<'w>(window: &'w Window, call: &'static str) -> impl FnMut(u32) -> WinResult<()> + 'w {
    let mut waiter = window.link.tries(call);
    move |tries| waiter.back_off(tries / 4)
}

pub(super) fn lock(window: &Window, rank: usize, kind: LockKind) -> WinResult<()> {
    let call = "lock";
    let words = InSegment::of(window, call, rank)?;
    match kind {
        LockKind::Shared => lock_words::lock_shared(&words, LockWord::Target, pauses(window, call)),
        LockKind::Exclusive => lock_words::lock_alone(&words, pauses(window, call)),
    }
}

pub(super) fn unlock(window: &Window, rank: usize, held: Option<LockKind>) -> WinResult<()> {
    let words = InSegment::of(window, "unlock", rank)?;
    match held {
        Some(LockKind::Shared) => lock_words::unlock_shared(&words, LockWord::Target),
        Some(LockKind::Exclusive) => lock_words::unlock_alone(&words),
        // No lock with its Release and Acquire is involved, so a fence gives the order here.
        None => {
            fence(Ordering::SeqCst);
            Ok(())
        }
    }
}

pub(super) fn lock_all(window: &Window) -> WinResult<()> {
    let call = "lock_all";
    let words = InSegment::of(window, call, window.link.rank)?;
    lock_words::lock_shared(&words, LockWord::Master, pauses(window, call))
}

pub(super) fn unlock_all(window: &Window, held: bool) -> WinResult<()> {
    if !held {
        fence(Ordering::SeqCst);
        return Ok(());
    }
    let words = InSegment::of(window, "unlock_all", window.link.rank)?;
    lock_words::unlock_shared(&words, LockWord::Master)
}

/// Runs a short update of a rank's memory under the rank's update lock.
pub(super) fn alone(
    window: &Window,
    call: &'static str,
    rank: usize,
    update: impl FnOnce(),
) -> WinResult<()> {
    let shared = window.shared(call)?;
    let word = shared.segment.word(shared.plan.update_lock(rank));
    let mut pause = pauses(window, call);
    let mut tries = 0;
    // Acquire pairs with the Release of the last holder.
    while word.swap(1, Ordering::Acquire) != 0 {
        while word.load(Ordering::Relaxed) != 0 {
            tries += 1;
            pause(tries)?;
        }
    }
    update();
    word.store(0, Ordering::Release);
    Ok(())
}
