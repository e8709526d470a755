//! Passive target: locks and flushes.
//!
//! The lock is one word of the target's control block: [`EXCLUSIVE`] while a rank holds it alone,
//! plus [`WAITING`] for each that waits to, plus one for each shared holder. A shared lock adds one
//! and takes it back when the word was held exclusively, or when somebody waits for that, so that a
//! stream of shared lockers cannot keep an exclusive one out; it stands back for [`PATIENCE`] only,
//! because a waiting rank may be waiting for a rank that waits for this one. An exclusive lock swaps
//! a word without holders for [`EXCLUSIVE`]. Both back off between tries.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use plugin_api::{BtlAtomicOp, OpFlags};

use super::tracked::notified;
use crate::win::control::{EXCLUSIVE, LOCK, WAITING};
use crate::win::epoch::LockKind;
use crate::win::error::WinResult;
use crate::win::peer::Peer;
use crate::win::window::Window;

/// How long a shared locker lets others go before.
const PATIENCE: Duration = Duration::from_millis(20);

/// Locks that `lock_all` asks for at once.
pub(in crate::win) const LOCKS_AT_ONCE: usize = 16;

pub(super) fn lock(window: &Window, rank: usize, kind: LockKind) -> WinResult<()> {
    let call = "lock";
    let peer = window.peer(call, rank)?;
    let mut waiter = window.link.waiter(call);
    let word = Remote { window, call, peer };
    match kind {
        LockKind::Shared => lock_shared(&word, |tries| waiter.back_off(tries))?,
        LockKind::Exclusive => {
            // A try right behind the release of the same lock would keep out all others that want it.
            window.wait_pending_of(call, Some(rank), &window.parts.sync.releases)?;
            lock_alone(&word, |tries| waiter.back_off(tries))?;
        }
    }
    // Local accesses after the lock see what earlier holders wrote.
    fence(Ordering::SeqCst);
    Ok(())
}

/// The waiters of a word.
const fn waiters(word: u64) -> u64 {
    word & (EXCLUSIVE - WAITING)
}

/// The lock word of a target.
trait LockWord {
    /// Adds to it; gives what was there.
    fn add(&self, operand: u64) -> WinResult<u64>;

    /// Replaces it if it has a value; gives what was there.
    fn swap_if(&self, compare: u64, value: u64) -> WinResult<u64>;
}

/// The word in a target's control block.
struct Remote<'a> {
    window: &'a Window,
    call: &'static str,
    peer: &'a Peer,
}

impl LockWord for Remote<'_> {
    fn add(&self, operand: u64) -> WinResult<u64> {
        self.window.add_word(self.call, self.peer, LOCK, operand)
    }

    fn swap_if(&self, compare: u64, value: u64) -> WinResult<u64> {
        self.window
            .swap_word_if(self.call, self.peer, LOCK, compare, value)
    }
}

/// `back_off` waits, longer with each of the tries that it is told; its error ends the call.
fn lock_shared(
    word: &impl LockWord,
    mut back_off: impl FnMut(u32) -> WinResult<()>,
) -> WinResult<()> {
    let (mut tries, mut since) = (0, None);
    loop {
        let before = word.add(1)?;
        let stand_back =
            waiters(before) != 0 && since.get_or_insert_with(Instant::now).elapsed() < PATIENCE;
        if before & EXCLUSIVE == 0 && !stand_back {
            return Ok(());
        }
        word.add(taken_by(LockKind::Shared).wrapping_neg())?;
        back_off(tries)?;
        tries += 1;
    }
}

/// As [`lock_shared`].
fn lock_alone(
    word: &impl LockWord,
    mut back_off: impl FnMut(u32) -> WinResult<()>,
) -> WinResult<()> {
    let found = word.swap_if(0, EXCLUSIVE)?;
    if found == 0 {
        return Ok(());
    }
    let found = word.add(WAITING)? + WAITING;
    let locked = lock_announced(word, found, &mut back_off);
    if locked.is_err() {
        // Otherwise shared lockers would stand back for a waiter that is not there. Best effort: the first error is the one to
        // return.
        let _ = word.add(WAITING.wrapping_neg());
    }
    locked
}

/// Takes a lock after this rank has announced itself; `found` is the word with that. After an error it is still announced.
fn lock_announced(
    word: &impl LockWord,
    mut found: u64,
    back_off: &mut impl FnMut(u32) -> WinResult<()>,
) -> WinResult<()> {
    let mut tries = 0;
    loop {
        let expected = waiters(found);
        if found != expected {
            back_off(tries)?;
            tries += 1;
        }
        found = word.swap_if(expected, expected - WAITING + EXCLUSIVE)?;
        if found == expected {
            return Ok(());
        }
    }
}

/// What a holder has added to the word.
const fn taken_by(kind: LockKind) -> u64 {
    match kind {
        LockKind::Exclusive => EXCLUSIVE,
        LockKind::Shared => 1,
    }
}

/// Gives a lock back. Does not wait for the target's answer, which tells nothing: `free` does, so that the word lives
/// until then. One that fails ends the job's waits: others may wait for the lock.
fn release(window: &Window, call: &'static str, peer: &Peer, kind: LockKind) -> WinResult<()> {
    let remote = peer.control_address(LOCK);
    // Subtracted, not overwritten: others may have added themselves meanwhile.
    let operand = taken_by(kind).wrapping_neg();
    let releases = &window.parts.sync.releases;
    let job = Arc::as_ptr(&window.link.job).cast_mut().cast();
    window.tracked(call, peer.rank, releases, None, |context, _| {
        // SAFETY: the endpoint is the job's; the word lies in the peer's control block, which lives until every rank freed
        // the window; `notified` takes this context and data.
        unsafe {
            window.link.transport.atomic_op(
                peer.endpoint,
                remote,
                peer.control_handle.as_ptr(),
                BtlAtomicOp::Add,
                operand,
                OpFlags::empty(),
                Some(notified),
                context,
                job,
            )
        }
    })
}

/// Has releases leave: others wait for the locks, and this rank may make no progress for long.
fn send_releases(window: &Window, call: &'static str) -> WinResult<()> {
    window.link.progress(call).map(drop)
}

pub(super) fn unlock(window: &Window, rank: usize, held: Option<LockKind>) -> WinResult<()> {
    let call = "unlock";
    let flushed = flush(window, call, rank);
    let Some(kind) = held else { return flushed };
    let released = release(window, call, window.peer(call, rank)?, kind);
    flushed.and(released).and(send_releases(window, call))
}

pub(super) fn lock_all(window: &Window) -> WinResult<()> {
    let call = "lock_all";
    let mut counted: Vec<&Peer> = Vec::with_capacity(window.parts.peers.len());
    for peers in window.parts.peers.chunks(LOCKS_AT_ONCE) {
        let locked = lock_batch(window, call, peers, &mut counted);
        if locked.is_err() {
            for peer in counted {
                // Best effort: the first error is the one to return.
                let _ = release(window, call, peer, LockKind::Shared);
            }
            return locked;
        }
    }
    fence(Ordering::SeqCst);
    Ok(())
}

/// Locks some targets, and adds those to `counted` whose lock words count this rank. After an error these may be
/// targets that another rank holds.
fn lock_batch<'p>(
    window: &Window,
    call: &'static str,
    peers: &'p [Peer],
    counted: &mut Vec<&'p Peer>,
) -> WinResult<()> {
    let issued: Vec<_> = peers
        .iter()
        .map(|peer| window.begin_add(call, peer, LOCK, 1))
        .collect();
    let mut outcome = Ok(());
    // All are ended, also after an error: each has a slot.
    for (peer, issued) in peers.iter().zip(issued) {
        let before = match issued.and_then(|issued| window.finish_word(call, issued)) {
            Ok(before) => before,
            Err(error) => {
                outcome = outcome.and(Err(error));
                continue;
            }
        };
        let is_free = before & EXCLUSIVE == 0 && waiters(before) == 0;
        if !is_free && outcome.is_ok() {
            let mut waiter = window.link.waiter(call);
            let word = Remote { window, call, peer };
            outcome = release(window, call, peer, LockKind::Shared)
                .and_then(|()| lock_shared(&word, |tries| waiter.back_off(tries)));
            if outcome.is_err() {
                continue;
            }
        }
        counted.push(peer);
    }
    outcome
}

pub(super) fn unlock_all(window: &Window, held: bool) -> WinResult<()> {
    let call = "unlock_all";
    let mut outcome = flush_all(window, call);
    if !held {
        return outcome;
    }
    for peer in &window.parts.peers {
        outcome = outcome.and(release(window, call, peer, LockKind::Shared));
    }
    outcome.and(send_releases(window, call))
}

pub(in crate::win) fn flush(window: &Window, call: &'static str, rank: usize) -> WinResult<()> {
    let peer = window.peer(call, rank)?;
    if !peer.is_settled() {
        if !peer.transfers.is_alone() {
            return settle(window, call, peer);
        }
        // Most operations are complete after one visit to the transport, made here without preparing a wait.
        // Nothing is added meanwhile.
        window.link.progress(call)?;
        if !peer.is_settled() {
            return settle(window, call, peer);
        }
    }
    fence(Ordering::AcqRel);
    Ok(())
}

/// Waits for what is under way to a target, and tells of what failed.
#[inline(never)]
fn settle(window: &Window, call: &'static str, peer: &Peer) -> WinResult<()> {
    let Peer {
        rank,
        transfers,
        accumulates,
        ..
    } = peer;
    let transferred = window.flush_pending(call, *rank, transfers);
    let accumulated = window.flush_pending(call, *rank, accumulates);
    // Fetched data, and what was written to this rank's own memory, is seen by what follows. That
    // what was put is seen elsewhere is the transport's word, and needs no stronger fence here.
    fence(Ordering::AcqRel);
    transferred.and(accumulated)
}

pub(in crate::win) fn flush_all(window: &Window, call: &'static str) -> WinResult<()> {
    let mut outcome = Ok(());
    for rank in 0..window.parts.peers.len() {
        outcome = outcome.and(flush(window, call, rank));
    }
    outcome
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::win::WinError;

    fn failed() -> WinError {
        WinError::Job {
            call: "lock",
            reason: String::new(),
        }
    }

    /// A word in this process, and the number of swaps that succeed before one fails without effect.
    struct Local {
        word: Cell<u64>,
        swaps: Cell<u32>,
    }

    impl Local {
        fn new(word: u64, swaps: u32) -> Local {
            Local {
                word: Cell::new(word),
                swaps: Cell::new(swaps),
            }
        }
    }

    impl LockWord for Local {
        fn add(&self, operand: u64) -> WinResult<u64> {
            let before = self.word.get();
            self.word.set(before.wrapping_add(operand));
            Ok(before)
        }

        fn swap_if(&self, compare: u64, value: u64) -> WinResult<u64> {
            let left = self.swaps.get();
            self.swaps.set(left.checked_sub(1).ok_or_else(failed)?);
            let before = self.word.get();
            if before == compare {
                self.word.set(value);
            }
            Ok(before)
        }
    }

    #[test]
    fn a_failed_wait_leaves_no_waiter() {
        for held in [1, EXCLUSIVE, EXCLUSIVE + WAITING] {
            let word = Local::new(held, u32::MAX);
            assert!(
                lock_alone(&word, |tries| if tries < 3 {
                    Ok(())
                } else {
                    Err(failed())
                })
                .is_err()
            );
            assert_eq!(word.word.get(), held);
        }
    }

    #[test]
    fn a_failed_swap_leaves_no_waiter() {
        for swaps in 0..4 {
            let word = Local::new(EXCLUSIVE, swaps);
            assert!(lock_alone(&word, |_| Ok(())).is_err());
            assert_eq!(word.word.get(), EXCLUSIVE, "after {swaps} swaps");
        }
    }

    #[test]
    fn a_failed_wait_leaves_no_shared_holder() {
        let word = Local::new(EXCLUSIVE, 0);
        assert!(lock_shared(&word, |_| Err(failed())).is_err());
        assert_eq!(word.word.get(), EXCLUSIVE);
    }

    #[test]
    fn one_that_waits_gets_the_lock_when_it_is_given_back() {
        let word = Local::new(EXCLUSIVE, u32::MAX);
        let give_back = |tries| {
            if tries == 2 {
                let _ = word.add(EXCLUSIVE.wrapping_neg());
            }
            Ok(())
        };
        lock_alone(&word, give_back).unwrap();
        assert_eq!(word.word.get(), EXCLUSIVE);
        // Another waiter stays announced.
        let word = Local::new(WAITING, u32::MAX);
        lock_alone(&word, |_| Err(failed())).unwrap();
        assert_eq!(word.word.get(), EXCLUSIVE + WAITING);
    }
}
