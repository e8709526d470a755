//! Locks of windows are fair: rank after rank gets them.

use std::time::Duration;

use plugin_api::Datatype;

use super::super::case::{Case, Context, Outcome, ensure};
use host_stub::win::{Assertion, Info, Layout, LockKind, Op, TableChoice, WinResult, Window};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("locks/alone_among_shared", alone_among_shared),
        Case::new("locks/chain_of_three", chain_of_three),
        Case::new("locks/all_and_alone", all_and_alone),
    ]
}

/// Ranks that take a shared lock again and again do not shut out a rank that wants an exclusive
/// lock.
fn alone_among_shared(context: &Context<'_>) -> Outcome {
    for choice in [TableChoice::Auto, TableChoice::Btl] {
        let window = Window::allocate_with(context.job, 8, 8, &Info::new().with_table(choice))?;
        context.meet()?;
        let mut stop = [0; 8];
        if context.rank == context.size - 1 {
            for _ in 0..20 {
                window.lock(LockKind::Exclusive, 0, Assertion::empty())?;
                window.unlock(0)?;
            }
            let row = Layout::contiguous(Datatype::Int64, 1);
            let one = 1i64.to_ne_bytes();
            window.lock_all(Assertion::empty())?;
            for rank in 0..context.size {
                let target = row.at(rank, 0);
                // SAFETY: the operand lives until after the unlock.
                unsafe { window.accumulate(one.as_ptr(), &row, target, Op::Replace) }?;
            }
            window.unlock_all()?;
        } else {
            while stop == [0; 8] {
                window.lock(LockKind::Shared, 0, Assertion::empty())?;
                // The lock is held for a while, so that the locks of other ranks overlap it.
                for _ in 0..20 {
                    window.sync()?;
                }
                window.unlock(0)?;
                window.read_local(0, &mut stop)?;
            }
        }
        context.meet()?;
        window.free()?;
    }
    Ok(())
}

/// Rank 1 holds a shared lock of rank 0, rank 2 waits for an exclusive lock of rank 0, and then rank
/// 0 wants a shared lock of itself before rank 1 releases its lock: rank 0 must not wait for rank 2
/// because of fairness.
fn chain_of_three(context: &Context<'_>) -> Outcome {
    if context.size < 3 {
        return Ok(());
    }
    for choice in [TableChoice::Auto, TableChoice::Btl] {
        let window = Window::allocate_with(context.job, 8, 8, &Info::new().with_table(choice))?;
        let lock = |kind| window.lock(kind, 0, Assertion::empty());
        if context.rank == 1 {
            lock(LockKind::Shared)?;
        }
        context.meet()?;
        match context.rank {
            2 => lock(LockKind::Exclusive)?,
            0 => {
                // This time is usually long enough for rank 2 to begin its wait; otherwise nothing
                // is tested.
                std::thread::sleep(Duration::from_millis(30));
                lock(LockKind::Shared)?;
                window.unlock(0)?;
                // Rank 1 waits for this update.
                window.lock(LockKind::Shared, 1, Assertion::empty())?;
                let row = Layout::contiguous(Datatype::Int64, 1);
                let target = row.at(1, 0);
                let one = 1i64.to_ne_bytes();
                // SAFETY: the operand lives until after the unlock.
                unsafe { window.accumulate(one.as_ptr(), &row, target, Op::Replace) }?;
                window.unlock(1)?;
            }
            1 => {
                let mut told = [0; 8];
                while told == [0; 8] {
                    window.sync()?;
                    window.read_local(0, &mut told)?;
                }
                window.unlock(0)?;
            }
            _ => {}
        }
        if context.rank == 2 {
            window.unlock(0)?;
        }
        context.meet()?;
        window.free()?;
    }
    Ok(())
}

/// The two words that each rank has, which are equal whenever no exclusive lock is held.
type Pair = [i64; 2];

fn pair_of(window: &Window, rank: usize) -> WinResult<Pair> {
    let row = Layout::contiguous(Datatype::Int64, 2);
    let target = row.at(rank, 0);
    let mut pair = [0; 2];
    // SAFETY: the pair lives until after the flush.
    unsafe { window.get(pair.as_mut_ptr().cast(), &row, target) }?;
    window.flush(rank)?;
    Ok(pair)
}

/// Exclusive locks of targets in turn, and lock_all: a rank that holds a target alone changes its two words one after
/// the other, and no other rank sees them differ.
fn all_and_alone(context: &Context<'_>) -> Outcome {
    const ROUNDS: usize = 12;
    for choice in [TableChoice::Auto, TableChoice::Btl] {
        let window = Window::allocate_with(context.job, 16, 8, &Info::new().with_table(choice))?;
        context.meet()?;
        for round in 0..ROUNDS {
            let rank = (context.rank + round) % context.size;
            if (context.rank + round).is_multiple_of(3) {
                window.lock_all(Assertion::empty())?;
                let found = (0..context.size).map(|rank| pair_of(&window, rank));
                let found = found.collect::<WinResult<Vec<Pair>>>()?;
                window.unlock_all()?;
                for (rank, [a, b]) in found.into_iter().enumerate() {
                    ensure(a == b, || format!("{a} and {b} at rank {rank} in lock_all"))?;
                }
                continue;
            }
            window.lock(LockKind::Exclusive, rank, Assertion::empty())?;
            let [a, b] = pair_of(&window, rank)?;
            for displacement in 0..2 {
                let word = Layout::contiguous(Datatype::Int64, 1);
                let target = word.at(rank, displacement);
                let next = (a + 1).to_ne_bytes();
                // SAFETY: the value lives until after the flush.
                unsafe { window.put(next.as_ptr(), &word, target) }?;
                window.flush(rank)?;
                // The words differ for a while, so that other ranks would see it.
                for _ in 0..20 {
                    window.sync()?;
                    std::thread::yield_now();
                }
            }
            window.unlock(rank)?;
            ensure(a == b, || {
                format!("{a} and {b} at rank {rank}, locked alone")
            })?;
        }
        context.meet()?;
        let mut total = 0;
        window.lock_all(Assertion::empty())?;
        for rank in 0..context.size {
            let [a, b] = pair_of(&window, rank)?;
            ensure(a == b, || format!("{a} and {b} at rank {rank} at the end"))?;
            total += a;
        }
        window.unlock_all()?;
        let alone =
            |rank: usize| (0..ROUNDS).filter(move |round| !(rank + round).is_multiple_of(3));
        let expected = (0..context.size).flat_map(alone).count() as i64;
        ensure(total == expected, || {
            format!("{total} exclusive locks counted of {expected}")
        })?;
        context.meet()?;
        window.free()?;
    }
    Ok(())
}
