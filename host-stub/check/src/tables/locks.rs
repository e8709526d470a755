//! Locks of windows are fair, and rank after rank gets them.

use std::time::Duration;

use plugin_api::Datatype;

use super::super::case::{Case, Context, Outcome};
use host_stub::win::{Assertion, Info, Layout, LockKind, Op, TableChoice, Target, Window};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("locks/alone_among_shared", alone_among_shared),
        Case::new("locks/chain_of_three", chain_of_three),
    ]
}

/// Ranks that take a lock shared again and again do not keep out one that wants it alone.
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
                let target = Target {
                    rank,
                    displacement: 0,
                    layout: &row,
                };
                // SAFETY: the operand lives until after the unlock.
                unsafe { window.accumulate(one.as_ptr(), &row, target, Op::Replace) }?;
            }
            window.unlock_all()?;
        } else {
            while stop == [0; 8] {
                window.lock(LockKind::Shared, 0, Assertion::empty())?;
                // Held for a while, so that the others overlap it.
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

/// Rank 1 holds rank 0 shared, rank 2 waits to hold it alone, and rank 0 then wants it shared before
/// rank 1 lets go: fairness must not make it wait for rank 2.
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
                // Long enough for rank 2 to be waiting, mostly; else nothing is tested.
                std::thread::sleep(Duration::from_millis(30));
                lock(LockKind::Shared)?;
                window.unlock(0)?;
                // Rank 1 waits for this.
                window.lock(LockKind::Shared, 1, Assertion::empty())?;
                let row = Layout::contiguous(Datatype::Int64, 1);
                let target = Target {
                    rank: 1,
                    displacement: 0,
                    layout: &row,
                };
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
