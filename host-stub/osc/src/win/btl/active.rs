//! Active target: fence, post, start, complete, wait and test; sync and free.
//!
//! Ranks notify each other by adding one to counters in control blocks. Each counter has one meaning and only grows. A waiter
//! knows the value that it waits for, so no counter is ever reset.

use std::sync::atomic::{Ordering, fence as memory_fence};

use super::passive::{flush, flush_all};
use crate::win::control::{COMPLETED, Word};
use crate::win::epoch::{Assertion, FencePlan};
use crate::win::error::{WinError, WinResult};
use crate::win::peer::Peer;
use crate::win::window::Window;

/// Adds one to a counter of a peer. Returns once the transport has taken the notification.
fn notify(window: &Window, call: &'static str, peer: &Peer, word: Word) -> WinResult<()> {
    window.add_unanswered(call, (peer, word, 1), &window.parts.sync.notices)
}

/// Waits until a counter of this rank has reached a value.
fn wait_for(window: &Window, call: &'static str, word: Word, value: u64) -> WinResult<()> {
    // Pairs with the peer, which completed its operations before it notified: this rank now sees the data they wrote.
    let word = window.parts.control.word(word);
    window
        .link
        .wait_until(call, || word.load(Ordering::Acquire) >= value)
}

/// Barrier of all ranks: in round k each rank signals the rank 2^k after it and waits for the rank 2^k before it (Hensgen,
/// Finkel, Manber, "Two Algorithms for Barrier Synchronization", 1988).
pub(in crate::win) fn barrier(window: &Window, call: &'static str) -> WinResult<()> {
    let (rank, size) = (window.link.rank, window.link.size);
    let entered = window.parts.sync.barriers.fetch_add(1, Ordering::Relaxed) + 1;
    let (mut round, mut distance) = (0, 1);
    while distance < size {
        let word = window.parts.control.plan().barrier(round);
        notify(
            window,
            call,
            window.peer(call, (rank + distance) % size)?,
            word,
        )?;
        wait_for(window, call, word, entered)?;
        round += 1;
        distance *= 2;
    }
    // This rank does not wait for its last signals, but must send them: other ranks wait for them, and this rank may make no
    // progress for long.
    let looked = window.link.progress(call);
    match window.parts.sync.notices.take_failure() {
        None => looked.map(|_| ()),
        Some(status) => Err(Box::new(WinError::Transport { call, rank, status })),
    }
}

pub(in crate::win) fn fence(
    window: &Window,
    plan: FencePlan,
    assertion: Assertion,
) -> WinResult<()> {
    let call = "fence";
    let completed = if plan.complete {
        flush_all(window, call)
    } else {
        Ok(())
    };
    // Orders local stores before the reads of other ranks after the fence, unless there were no stores.
    if !assertion.contains(Assertion::NOSTORE) {
        memory_fence(Ordering::SeqCst);
    }
    // A rank whose operations failed still enters the barrier.
    let met = if plan.meet {
        barrier(window, call)
    } else {
        Ok(())
    };
    memory_fence(Ordering::SeqCst);
    completed.and(met)
}

pub(super) fn post(window: &Window, group: &[usize], assertion: Assertion) -> WinResult<()> {
    let call = "post";
    let due = &window.parts.sync.completions_due;
    if !assertion.contains(Assertion::NOSTORE) {
        memory_fence(Ordering::SeqCst);
    }
    if assertion.contains(Assertion::NOCHECK) {
        due.fetch_add(group.len() as u64, Ordering::Relaxed);
        return Ok(());
    }
    let word = window.parts.control.plan().post_of(window.link.rank);
    for rank in group {
        // No wait here: post returns whether or not the other ranks have reached start.
        notify(window, call, window.peer(call, *rank)?, word)?;
        // A rank that was not notified completes nothing.
        due.fetch_add(1, Ordering::Relaxed);
    }
    // Sends the notifications: other ranks wait for them, and this rank may compute until it waits for its exposure.
    window.link.progress(call)?;
    Ok(())
}

pub(super) fn start(window: &Window, group: &[usize], assertion: Assertion) -> WinResult<()> {
    let call = "start";
    if assertion.contains(Assertion::NOCHECK) {
        return Ok(());
    }
    for rank in group {
        let peer = window.peer(call, *rank)?;
        let next = peer.posts_matched.fetch_add(1, Ordering::Relaxed) + 1;
        wait_for(
            window,
            call,
            window.parts.control.plan().post_of(*rank),
            next,
        )?;
    }
    Ok(())
}

pub(in crate::win) fn complete(window: &Window, group: &[usize]) -> WinResult<()> {
    let call = "complete";
    let notices = &window.parts.sync.notices;
    window.send_all_gathered(call);
    // Orders stores to memory that is mapped here before the notifications.
    memory_fence(Ordering::SeqCst);
    // Most targets can be notified at once, in the message that carries the last operations.
    let mut outcome = Ok(());
    let mut others = Vec::new();
    for rank in group {
        let peer = window.peer(call, *rank)?;
        match window.add_behind(call, (peer, COMPLETED, 1), notices) {
            Ok(true) => {}
            Ok(false) => others.push(peer),
            Err(error) => outcome = outcome.and(Err(error)),
        }
    }
    for rank in group {
        outcome = outcome.and(flush(window, call, *rank));
    }
    memory_fence(Ordering::SeqCst);
    for peer in others {
        outcome = outcome.and(notify(window, call, peer, COMPLETED));
    }
    outcome.and(window.flush_pending(call, window.link.rank, notices))
}

fn is_complete(window: &Window) -> bool {
    let due = window.parts.sync.completions_due.load(Ordering::Relaxed);
    window.parts.control.word(COMPLETED).load(Ordering::Acquire) >= due
}

pub(super) fn wait(window: &Window) -> WinResult<()> {
    let call = "wait";
    window.link.wait_until(call, || is_complete(window))?;
    memory_fence(Ordering::SeqCst);
    window.flush_pending(call, window.link.rank, &window.parts.sync.notices)
}

pub(super) fn test(window: &Window) -> WinResult<bool> {
    let call = "test";
    if !is_complete(window) {
        window.link.progress(call)?;
        window.link.check(call)?;
        if !is_complete(window) {
            return Ok(false);
        }
    }
    memory_fence(Ordering::SeqCst);
    Ok(true)
}

pub(super) fn sync(window: &Window) -> WinResult<()> {
    memory_fence(Ordering::SeqCst);
    window.link.progress("sync").map(drop)
}

pub(super) fn free(window: &Window) -> WinResult<()> {
    let call = "free";
    let rank = window.link.rank;
    let mut outcome = flush_all(window, call);
    debug_assert!(
        outcome.is_err() || window.parts.peers.all_made().all(Peer::is_settled),
        "an operation was counted for a peer that is not listed"
    );
    // Completes notifications of posts, and releases of locks, without a waiter: they arrive before the barrier.
    outcome = outcome.and(window.flush_pending(call, rank, &window.parts.sync.notices));
    outcome = outcome.and(window.flush_pending(call, rank, &window.parts.sync.releases));
    // A rank whose operations failed still enters the barrier.
    outcome = outcome.and(barrier(window, call));
    // After the barrier no rank accesses this rank's memory, and all signals to this rank have come. Its own signals are
    // counted in memory that is freed with the window, so they must end first.
    outcome.and(window.flush_pending(call, rank, &window.parts.sync.notices))
}
