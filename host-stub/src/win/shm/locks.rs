//! Locks in the segment: the passive-target lock of each rank, and the lock of its updates that no
//! processor's atomics serve.
//!
//! A lock is one word: the count of shared holders, the count of ranks that wait to hold it alone,
//! and the rank (plus one) that does. Shared lockers stand back while somebody waits to hold it
//! alone, so a stream of them cannot keep that rank out for ever. They stand back for
//! [`PATIENCE`] only: a rank may hold one target alone and want another shared, and were it kept
//! waiting behind a rank that waits for a third that waits for the first, nobody would go on.
//!
//! Who waits looks after the other processes of the window: a holder that was killed ends the wait
//! with an error. Its lock stays taken; the job is beyond repair.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use crate::win::epoch::LockKind;
use crate::win::error::WinResult;
use crate::win::window::Window;

/// How long a shared locker lets others go before.
const PATIENCE: Duration = Duration::from_millis(5);

const SHARED: u64 = 1;
const WAITING: u64 = 1 << 32;
const HOLDER: u64 = 1 << 48;

const fn shared_holders(word: u64) -> u64 {
    word & (WAITING - 1)
}

const fn waiting(word: u64) -> u64 {
    (word >> 32) & 0xffff
}

const fn holder(word: u64) -> u64 {
    word >> 48
}

fn lock_shared(word: &AtomicU64, mut wait: impl FnMut() -> WinResult<()>) -> WinResult<()> {
    let mut since = None;
    loop {
        let found = word.load(Ordering::Relaxed);
        let stand_back =
            waiting(found) > 0 && since.get_or_insert_with(Instant::now).elapsed() < PATIENCE;
        if holder(found) == 0 && !stand_back {
            // Acquire pairs with the Release of the last exclusive holder.
            let taken = word.compare_exchange_weak(
                found,
                found + SHARED,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            if taken.is_ok() {
                return Ok(());
            }
            continue;
        }
        wait()?;
    }
}

fn lock_alone(
    word: &AtomicU64,
    rank: usize,
    mut wait: impl FnMut() -> WinResult<()>,
) -> WinResult<()> {
    let mine = (rank as u64 + 1) * HOLDER;
    if word
        .compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed)
        .is_ok()
    {
        return Ok(());
    }
    let mut found = word.fetch_add(WAITING, Ordering::Relaxed) + WAITING;
    loop {
        if holder(found) == 0 && shared_holders(found) == 0 {
            match word.compare_exchange_weak(
                found,
                found - WAITING + mine,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(other) => found = other,
            }
            continue;
        }
        if let Err(error) = wait() {
            word.fetch_sub(WAITING, Ordering::Relaxed);
            return Err(error);
        }
        found = word.load(Ordering::Relaxed);
    }
}

// Release in both: the next holder sees what was done under the lock.
fn unlock_shared(word: &AtomicU64) {
    word.fetch_sub(SHARED, Ordering::Release);
}

fn unlock_alone(word: &AtomicU64, rank: usize) {
    // Subtracted, not overwritten: others may have announced themselves meanwhile.
    word.fetch_sub((rank as u64 + 1) * HOLDER, Ordering::Release);
}

/// The pauses between looks at a lock: they grow, so that many waiters leave the word alone.
fn pauses<'w>(window: &'w Window, call: &'static str) -> impl FnMut() -> WinResult<()> + 'w {
    let mut waiter = window.link.waiter(call);
    let mut tries = 0;
    move || {
        tries += 1;
        waiter.back_off(tries / 4)
    }
}

pub(super) fn lock(window: &Window, rank: usize, kind: LockKind) -> WinResult<()> {
    let call = "lock";
    let shared = window.shared(call)?;
    let word = shared.segment.word(shared.plan.lock(rank));
    match kind {
        LockKind::Shared => lock_shared(word, pauses(window, call))?,
        LockKind::Exclusive => lock_alone(word, window.link.rank, pauses(window, call))?,
    }
    Ok(())
}

pub(super) fn unlock(window: &Window, rank: usize, held: Option<LockKind>) -> WinResult<()> {
    let shared = window.shared("unlock")?;
    let word = shared.segment.word(shared.plan.lock(rank));
    match held {
        Some(LockKind::Shared) => unlock_shared(word),
        Some(LockKind::Exclusive) => unlock_alone(word, window.link.rank),
        // Without a lock's Release and the next one's Acquire, the order must come from here.
        None => fence(Ordering::SeqCst),
    }
    Ok(())
}

pub(super) fn lock_all(window: &Window) -> WinResult<()> {
    let call = "lock_all";
    let shared = window.shared(call)?;
    for rank in 0..window.link.size {
        let word = shared.segment.word(shared.plan.lock(rank));
        if let Err(error) = lock_shared(word, pauses(window, call)) {
            for earlier in 0..rank {
                unlock_shared(shared.segment.word(shared.plan.lock(earlier)));
            }
            return Err(error);
        }
    }
    Ok(())
}

pub(super) fn unlock_all(window: &Window, held: bool) -> WinResult<()> {
    if !held {
        fence(Ordering::SeqCst);
        return Ok(());
    }
    let shared = window.shared("unlock_all")?;
    for rank in 0..window.link.size {
        unlock_shared(shared.segment.word(shared.plan.lock(rank)));
    }
    Ok(())
}

/// Runs a short update of a rank's memory alone.
pub(super) fn alone(
    window: &Window,
    call: &'static str,
    rank: usize,
    update: impl FnOnce(),
) -> WinResult<()> {
    let shared = window.shared(call)?;
    let word = shared.segment.word(shared.plan.update_lock(rank));
    lock_alone(word, window.link.rank, pauses(window, call))?;
    update();
    unlock_alone(word, window.link.rank);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::win::WinError;

    fn give_up() -> WinResult<()> {
        Err(WinError::Job {
            call: "lock",
            reason: String::new(),
        })
    }

    fn spin() -> WinResult<()> {
        std::thread::yield_now();
        Ok(())
    }

    #[test]
    fn shared_and_alone_keep_each_other_out() {
        let word = AtomicU64::new(0);
        lock_shared(&word, give_up).unwrap();
        lock_shared(&word, give_up).unwrap();
        assert!(lock_alone(&word, 3, give_up).is_err());
        unlock_shared(&word);
        assert!(lock_alone(&word, 3, give_up).is_err());
        unlock_shared(&word);
        lock_alone(&word, 3, give_up).unwrap();
        assert_eq!(holder(word.load(Ordering::Relaxed)), 4);
        assert!(lock_shared(&word, give_up).is_err());
        assert!(lock_alone(&word, 2, give_up).is_err());
        unlock_alone(&word, 3);
        assert_eq!(word.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn shared_lockers_stand_back_for_a_while() {
        let word = AtomicU64::new(WAITING);
        let mut pauses = 0u64;
        lock_shared(&word, || {
            pauses += 1;
            spin()
        })
        .unwrap();
        assert!(pauses > 0);
        assert_eq!(word.load(Ordering::Relaxed), WAITING + SHARED);
    }

    #[test]
    fn a_stream_of_shared_lockers_does_not_keep_out_who_wants_it_alone() {
        let word = AtomicU64::new(0);
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    // Takes the lock again before another lets go, mostly.
                    while !done.load(Ordering::Relaxed) {
                        lock_shared(&word, spin).unwrap();
                        std::thread::yield_now();
                        unlock_shared(&word);
                    }
                });
            }
            for _ in 0..50 {
                lock_alone(&word, 1, spin).unwrap();
                unlock_alone(&word, 1);
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(word.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn one_at_a_time() {
        let word = AtomicU64::new(0);
        let (inside, total) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for rank in 0..4 {
                let (word, inside, total) = (&word, &inside, &total);
                scope.spawn(move || {
                    for round in 0..500 {
                        if round % 2 == 0 {
                            lock_alone(word, rank, spin).unwrap();
                            assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                            total.store(total.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                            inside.fetch_sub(1, Ordering::Relaxed);
                            unlock_alone(word, rank);
                        } else {
                            lock_shared(word, spin).unwrap();
                            assert_eq!(inside.load(Ordering::Relaxed), 0);
                            unlock_shared(word);
                        }
                    }
                });
            }
        });
        assert_eq!(total.load(Ordering::Relaxed), 1000);
        assert_eq!(word.load(Ordering::Relaxed), 0);
    }
}
