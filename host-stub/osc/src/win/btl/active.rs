//! Active target: fence, post, start, complete, wait and test; sync and free.
//!
//! Ranks notify each other by adding one to counters in control blocks. Each counter has one meaning and only grows. A waiter
//! knows the value that it waits for, so no counter is ever reset.

use std::sync::atomic::{Ordering, fence as memory_fence};

use plugin_api::OpFlags;

use super::passive::{flush, flush_all};
use crate::win::control::{COMPLETED, Word};
use crate::win::epoch::{Assertion, FencePlan};
use crate::win::error::{WinError, WinResult};
use crate::win::peer::Peer;
use crate::win::shm::sync::barrier as barrier_in_segment;
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
/// Ranks that share a segment count in one word instead.
pub(in crate::win) fn barrier(window: &Window, call: &'static str) -> WinResult<()> {
    match window.parts.shared {
        Some(_) => barrier_in_segment(window, call),
        None => barrier_from(window, call, false),
    }
}

/// A barrier in which this rank may have signalled the next rank already, behind operations. The answers to these operations
/// are there before a later round tells another rank that they are complete.
fn barrier_from(window: &Window, call: &'static str, has_signalled: bool) -> WinResult<()> {
    let (rank, size) = (window.link.rank, window.link.size);
    let entered = window.parts.sync.barriers.fetch_add(1, Ordering::Relaxed) + 1;
    let mut answered = Ok(());
    let (mut round, mut distance) = (0, 1);
    while distance < size {
        let word = window.parts.control.plan().barrier(round);
        let is_signalled = round == 0 && has_signalled;
        if !is_signalled {
            let peer = window.peer(call, (rank + distance) % size)?;
            notify(window, call, peer, word)?;
        }
        wait_for(window, call, word, entered)?;
        if is_signalled {
            // A failure does not keep this rank from the rounds that follow.
            answered = flush(window, call, (rank + 1) % size);
        }
        round += 1;
        distance *= 2;
    }
    // This rank does not wait for its last signals, but must send them: other ranks wait for them, and this rank may make no
    // progress for long.
    answered.and(send_notices(window, call))
}

/// Sends notifications for whose answers this rank does not wait.
fn send_notices(window: &Window, call: &'static str) -> WinResult<()> {
    let sent = window.send_posted(call);
    sent.and(failed_notice(window, call))
}

/// An error if a notification failed since that was last asked.
fn failed_notice(window: &Window, call: &'static str) -> WinResult<()> {
    let rank = window.link.rank;
    match window.parts.sync.notices.take_failure() {
        None => Ok(()),
        Some(status) => Err(Box::new(WinError::Transport { call, rank, status })),
    }
}

/// Completes this rank's operations before a barrier. The first signal of the barrier may follow the operations to the next
/// rank, which then executes them before it goes on. Returns whether the signal does so and is sent: the answers are still
/// to come.
fn complete_all(window: &Window, call: &'static str) -> (bool, WinResult<()>) {
    let (rank, size) = (window.link.rank, window.link.size);
    let next = (rank + 1) % size;
    window.send_all_gathered(call);
    let others = window.each_busy(|peer| match peer.rank == next {
        true => Ok(()),
        false => flush(window, call, peer.rank),
    });
    memory_fence(Ordering::SeqCst);
    let Some(peer) = window.parts.peers.made(next).filter(|it| !it.is_settled()) else {
        return (false, others);
    };
    let signal = (peer, window.parts.control.plan().barrier(0), 1);
    let notices = &window.parts.sync.notices;
    match window.add_in_order(OpFlags::COPIED, call, signal, notices) {
        Ok(true) => (true, others),
        Ok(false) => (false, others.and(flush(window, call, next))),
        Err(error) => (false, others.and(Err(error))),
    }
}

pub(in crate::win) fn fence(
    window: &Window,
    plan: FencePlan,
    assertion: Assertion,
) -> WinResult<()> {
    let call = "fence";
    let (has_signalled, completed) = match plan {
        FencePlan {
            complete: true,
            meet: true,
        } => complete_all(window, call),
        FencePlan { complete: true, .. } => (false, flush_all(window, call)),
        _ => (false, Ok(())),
    };
    // Orders local stores before the reads of other ranks after the fence, unless there were no stores.
    if !assertion.contains(Assertion::NOSTORE) {
        memory_fence(Ordering::SeqCst);
    }
    // A rank whose operations failed still enters the barrier.
    let met = if plan.meet {
        barrier_from(window, call, has_signalled)
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
        let signal = (window.peer(call, *rank)?, word, 1);
        window.add_with(OpFlags::UNAWAITED, call, signal, &window.parts.sync.notices)?;
        // A rank that was not notified completes nothing.
        due.fetch_add(1, Ordering::Relaxed);
    }
    // Sends the notifications: other ranks wait for them, and this rank may compute until it waits for its exposure.
    window.send_posted(call)
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
    // Most targets can be notified at once, in the message that carries the last operations. Then nothing is to be waited
    // for here, unless operations still use this rank's memory.
    let mut outcome = Ok(());
    let (mut busy, mut unnotified) = (Vec::new(), Vec::new());
    for rank in group {
        let peer = window.peer(call, *rank)?;
        let signal = (peer, COMPLETED, 1);
        let unawaited = OpFlags::COPIED | OpFlags::UNAWAITED;
        // Flushes wait for the signals that they count, and for no other rank's.
        let behind = match window.add_in_order(unawaited, call, signal, notices) {
            Ok(true) => continue,
            Ok(false) => window.add_in_order(OpFlags::FENCE, call, signal, &peer.accumulates),
            refused => refused,
        };
        window.note(peer);
        busy.push(peer);
        match behind {
            Ok(true) => {}
            Ok(false) => unnotified.push(peer),
            Err(error) => outcome = outcome.and(Err(error)),
        }
    }
    for peer in &busy {
        outcome = outcome.and(flush(window, call, peer.rank));
    }
    memory_fence(Ordering::SeqCst);
    for peer in &unnotified {
        let signal = (*peer, COMPLETED, 1);
        outcome = outcome.and(window.add_unanswered(call, signal, &peer.accumulates));
        window.note(peer);
    }
    for peer in unnotified {
        outcome = outcome.and(flush(window, call, peer.rank));
    }
    outcome.and(send_notices(window, call))
}

fn is_complete(window: &Window) -> bool {
    let due = window.parts.sync.completions_due.load(Ordering::Relaxed);
    window.parts.control.word(COMPLETED).load(Ordering::Acquire) >= due
}

pub(super) fn wait(window: &Window) -> WinResult<()> {
    let call = "wait";
    window.link.wait_until(call, || is_complete(window))?;
    memory_fence(Ordering::SeqCst);
    failed_notice(window, call)
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
    // After the barrier no rank accesses this rank's memory, and all signals to this rank have come. This rank's own
    // signals are counted in memory that is freed with the window, so they must end first.
    outcome.and(window.flush_pending(call, rank, &window.parts.sync.notices))
}
