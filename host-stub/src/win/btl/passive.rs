//! Passive target: locks and flushes.
//!
//! The lock is one word of the target's control block: [`EXCLUSIVE`] while a rank holds it alone,
//! plus [`WAITING`] for each that waits to, plus one for each shared holder. A shared lock adds one
//! and takes it back when the word was held exclusively, or when somebody waits for that, so that a
//! stream of shared lockers cannot keep an exclusive one out; it stands back for [`PATIENCE`] only,
//! because a waiting rank may be waiting for a rank that waits for this one. An exclusive lock swaps
//! a word without holders for [`EXCLUSIVE`]. Both back off between tries.

use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use crate::win::control::{EXCLUSIVE, LOCK, WAITING};
use crate::win::epoch::LockKind;
use crate::win::error::WinResult;
use crate::win::peer::Peer;
use crate::win::window::Window;

/// How long a shared locker lets others go before.
const PATIENCE: Duration = Duration::from_millis(20);

/// Locks asked for at once by `lock_all`.
pub(in crate::win) const LOCKS_AT_ONCE: usize = 16;

pub(super) fn lock(window: &Window, rank: usize, kind: LockKind) -> WinResult<()> {
    let call = "lock";
    let peer = window.peer(call, rank)?;
    match kind {
        LockKind::Shared => lock_shared(window, call, peer)?,
        LockKind::Exclusive => lock_alone(window, call, peer)?,
    }
    // Local accesses after the lock see what earlier holders wrote.
    fence(Ordering::SeqCst);
    Ok(())
}

/// The waiters of a word.
const fn waiters(word: u64) -> u64 {
    word & (EXCLUSIVE - WAITING)
}

fn lock_shared(window: &Window, call: &'static str, peer: &Peer) -> WinResult<()> {
    let mut waiter = window.link.waiter(call);
    let (mut tries, mut since) = (0, None);
    loop {
        let before = window.add_word(call, peer, LOCK, 1)?;
        let stand_back =
            waiters(before) != 0 && since.get_or_insert_with(Instant::now).elapsed() < PATIENCE;
        if before & EXCLUSIVE == 0 && !stand_back {
            return Ok(());
        }
        release(window, call, peer, LockKind::Shared)?;
        waiter.back_off(tries)?;
        tries += 1;
    }
}

fn lock_alone(window: &Window, call: &'static str, peer: &Peer) -> WinResult<()> {
    let mut waiter = window.link.waiter(call);
    let (mut tries, mut expected, mut announced) = (0, 0, 0);
    loop {
        let mut found =
            window.swap_word_if(call, peer, LOCK, expected, expected - announced + EXCLUSIVE)?;
        if found == expected {
            return Ok(());
        }
        if announced == 0 {
            announced = WAITING;
            found = window.add_word(call, peer, LOCK, WAITING)? + WAITING;
        }
        expected = waiters(found);
        if found == expected {
            // Nobody holds it now.
            continue;
        }
        if let Err(error) = waiter.back_off(tries) {
            // Best effort: the job has failed.
            let _ = window.add_word(call, peer, LOCK, WAITING.wrapping_neg());
            return Err(error);
        }
        tries += 1;
    }
}

fn release(window: &Window, call: &'static str, peer: &Peer, kind: LockKind) -> WinResult<()> {
    let held = match kind {
        // Subtracted, not overwritten: others may have added themselves meanwhile.
        LockKind::Exclusive => EXCLUSIVE,
        LockKind::Shared => 1,
    };
    window
        .add_word(call, peer, LOCK, held.wrapping_neg())
        .map(drop)
}

pub(super) fn unlock(window: &Window, rank: usize, held: Option<LockKind>) -> WinResult<()> {
    let call = "unlock";
    let flushed = flush(window, call, rank);
    let Some(kind) = held else { return flushed };
    let released = release(window, call, window.peer(call, rank)?, kind);
    flushed.and(released)
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
            outcome = release(window, call, peer, LockKind::Shared)
                .and_then(|()| lock_shared(window, call, peer));
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
    for peers in window.parts.peers.chunks(LOCKS_AT_ONCE) {
        let issued: Vec<_> = peers
            .iter()
            .map(|peer| window.begin_add(call, peer, LOCK, 1u64.wrapping_neg()))
            .collect();
        for issued in issued {
            let released = issued.and_then(|issued| window.finish_word(call, issued));
            outcome = outcome.and(released.map(drop));
        }
    }
    outcome
}

pub(in crate::win) fn flush(window: &Window, call: &'static str, rank: usize) -> WinResult<()> {
    let peer = window.peer(call, rank)?;
    if peer.leases.is_any() {
        return settle(window, call, peer);
    }
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
        leases,
        ..
    } = peer;
    let taken = leases.take();
    let transferred = window.flush_pending(call, *rank, transfers);
    let accumulated = window.flush_pending(call, *rank, accumulates);
    if (transferred.is_err() || accumulated.is_err())
        && !(transfers.is_idle() && accumulates.is_idle())
    {
        leases.give_back(taken);
    }
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
