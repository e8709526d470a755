//! Mistakes of the caller: each is refused with its own error before anything is sent, and the
//! window still works.

use plugin_api::Datatype;

use super::attempt::Attempt;
use super::case::{Case, Context, Failure, Outcome, ensure};
use super::shape::Placed;
use host_stub::win::{Assertion, Layout, LockKind, Op, WinError, unboxed};

/// The tests of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("errors/outside_epoch", outside_epoch),
        Case::new("errors/out_of_bounds", out_of_bounds),
        Case::new("errors/operation_and_type", operation_and_type),
        Case::new("errors/layouts", layouts),
        Case::new("errors/no_such_rank", no_such_rank),
        Case::new("errors/wrong_target", wrong_target),
        Case::new("errors/epoch_order", epoch_order),
        Case::new("errors/requests_in_active_epochs", requests),
        Case::new("errors/assertions", assertions),
        Case::new("errors/free_in_epoch", free_in_epoch),
    ]
}

/// Fails unless a call was refused with the expected error.
macro_rules! refused {
    ($call:expr, $wanted:pat) => {{
        let outcome = $call;
        ensure(matches!(unboxed(&outcome), Err($wanted)), || {
            format!(
                "{} gave {outcome:?}, wanted {}",
                stringify!($call),
                stringify!($wanted)
            )
        })
    }};
}

fn bytes(count: usize) -> Layout {
    Layout::contiguous(Datatype::Uint8, count)
}

fn outside_epoch(context: &Context<'_>) -> Outcome {
    let window = context.window;
    let call = Attempt::new(window);
    let row = bytes(8);
    let rank = context.next();
    let target = row.at(rank, 0);
    refused!(call.put(&row, target), WinError::OutsideEpoch { .. })?;
    refused!(call.get(&row, target), WinError::OutsideEpoch { .. })?;
    refused!(
        call.accumulate(&row, target, Op::Sum),
        WinError::OutsideEpoch { .. }
    )?;
    refused!(
        call.get_accumulate(&row, target, Op::Sum),
        WinError::OutsideEpoch { .. }
    )?;
    refused!(
        call.fetch_and_op(Datatype::Int64, rank, 0, Op::Sum),
        WinError::OutsideEpoch { .. }
    )?;
    refused!(
        call.compare_and_swap(Datatype::Int64, rank, 0),
        WinError::OutsideEpoch { .. }
    )?;
    refused!(call.rput(&row, target), WinError::OutsideEpoch { .. })?;
    refused!(window.flush(rank), WinError::EpochMisuse { .. })?;
    refused!(window.flush_local_all(), WinError::EpochMisuse { .. })?;
    refused!(window.unlock(rank), WinError::EpochMisuse { .. })?;
    refused!(window.unlock_all(), WinError::EpochMisuse { .. })?;
    refused!(window.complete(), WinError::EpochMisuse { .. })?;
    refused!(window.wait(), WinError::EpochMisuse { .. })?;
    refused!(window.test(), WinError::EpochMisuse { .. })
}

fn out_of_bounds(context: &Context<'_>) -> Outcome {
    let window = context.window;
    let wanted = context.fill(window)?;
    context.meet()?;
    let call = Attempt::new(window);
    let end = window.len() as u64;
    let rank = context.next();
    let row = bytes(8);
    let wide = Layout::strided(Datatype::Uint8, 2, 1, 200)?;
    window.lock_all(Assertion::empty())?;
    for displacement in [end - 7, end, end + 1, u64::MAX - 4, u64::MAX] {
        let target = row.at(rank, displacement);
        refused!(call.put(&row, target), WinError::OutOfBounds { .. })?;
        refused!(call.get(&row, target), WinError::OutOfBounds { .. })?;
        refused!(
            call.accumulate(&row, target, Op::Bor),
            WinError::OutOfBounds { .. }
        )?;
        refused!(
            call.get_accumulate(&row, target, Op::NoOp),
            WinError::OutOfBounds { .. }
        )?;
        refused!(
            call.fetch_and_op(Datatype::Int64, rank, displacement, Op::Sum),
            WinError::OutOfBounds { .. }
        )?;
        refused!(
            call.compare_and_swap(Datatype::Int64, rank, displacement),
            WinError::OutOfBounds { .. }
        )?;
        refused!(call.rget(&row, target), WinError::OutOfBounds { .. })?;
    }
    // The end of the layout must lie in the window, not only its number of bytes.
    refused!(
        call.put(&bytes(2), wide.at(rank, end - 200)),
        WinError::OutOfBounds { .. }
    )?;
    let huge = bytes(usize::MAX);
    refused!(
        call.put(&huge, huge.at(rank, 0)),
        WinError::OutOfBounds { .. }
    )?;
    window.unlock_all()?;
    context.meet()?;
    context.verify(window, &wanted)
}

fn operation_and_type(context: &Context<'_>) -> Outcome {
    let window = context.window;
    let call = Attempt::new(window);
    let rank = context.next();
    window.lock_all(Assertion::empty())?;
    for datatype in [Datatype::Float, Datatype::Double] {
        let row = Layout::contiguous(datatype, 2);
        let target = row.at(rank, 0);
        for op in [Op::Land, Op::Lor, Op::Lxor, Op::Band, Op::Bor, Op::Bxor] {
            refused!(
                call.accumulate(&row, target, op),
                WinError::InvalidOperation { .. }
            )?;
            refused!(
                call.get_accumulate(&row, target, op),
                WinError::InvalidOperation { .. }
            )?;
            refused!(
                call.fetch_and_op(datatype, rank, 0, op),
                WinError::InvalidOperation { .. }
            )?;
        }
        refused!(
            call.compare_and_swap(datatype, rank, 0),
            WinError::InvalidOperation { .. }
        )?;
    }
    let row = bytes(4);
    let target = row.at(rank, 0);
    refused!(
        call.accumulate(&row, target, Op::NoOp),
        WinError::InvalidOperation { .. }
    )?;
    window.unlock_all()?;
    Ok(())
}

fn layouts(context: &Context<'_>) -> Outcome {
    let window = context.window;
    let call = Attempt::new(window);
    let rank = context.next();
    let ints = Layout::contiguous(Datatype::Int32, 4);
    window.lock_all(Assertion::empty())?;
    let longs = Layout::contiguous(Datatype::Int64, 2);
    let more = Layout::contiguous(Datatype::Int32, 5);
    refused!(
        call.put(&longs, ints.at(rank, 0)),
        WinError::LayoutMismatch { .. }
    )?;
    refused!(
        call.get(&more, ints.at(rank, 0)),
        WinError::LayoutMismatch { .. }
    )?;
    refused!(
        call.get_accumulate(&more, ints.at(rank, 0), Op::NoOp),
        WinError::LayoutMismatch { .. }
    )?;
    refused!(
        Layout::strided(Datatype::Int32, 3, 2, 1),
        WinError::InvalidLayout { .. }
    )?;
    refused!(
        Layout::strided(Datatype::Int32, usize::MAX, 2, 3),
        WinError::InvalidLayout { .. }
    )?;
    window.unlock_all()?;
    Ok(())
}

fn no_such_rank(context: &Context<'_>) -> Outcome {
    let window = context.window;
    let call = Attempt::new(window);
    let row = bytes(1);
    let rank = context.size;
    let target = row.at(rank, 0);
    window.lock_all(Assertion::empty())?;
    refused!(call.put(&row, target), WinError::NoSuchRank { .. })?;
    refused!(window.flush(rank), WinError::NoSuchRank { .. })?;
    window.unlock_all()?;
    refused!(
        window.lock(LockKind::Shared, rank, Assertion::empty()),
        WinError::NoSuchRank { .. }
    )?;
    refused!(
        window.post(&[rank], Assertion::empty()),
        WinError::NoSuchRank { .. }
    )?;
    refused!(
        window.start(&[0, 0], Assertion::empty()),
        WinError::BadArgument { .. }
    )
}

fn wrong_target(context: &Context<'_>) -> Outcome {
    let window = context.window;
    let call = Attempt::new(window);
    let row = bytes(1);
    let target = |rank| row.at(rank, 0);
    window.lock(LockKind::Shared, context.rank, Assertion::empty())?;
    if context.size > 1 {
        let other = context.next();
        refused!(call.put(&row, target(other)), WinError::WrongTarget { .. })?;
        refused!(call.rput(&row, target(other)), WinError::WrongTarget { .. })?;
        refused!(window.flush(other), WinError::WrongTarget { .. })?;
        refused!(window.unlock(other), WinError::LockState { .. })?;
    }
    refused!(
        window.lock(LockKind::Shared, context.rank, Assertion::empty()),
        WinError::LockState { .. }
    )?;
    window.unlock(context.rank)?;
    window.post(&[context.rank], Assertion::empty())?;
    window.start(&[context.rank], Assertion::empty())?;
    if context.size > 1 {
        refused!(
            call.put(&row, target(context.next())),
            WinError::WrongTarget { .. }
        )?;
    }
    window.complete()?;
    window.wait()?;
    Ok(())
}

fn epoch_order(context: &Context<'_>) -> Outcome {
    let window = context.window;
    let own = context.rank;
    let none = Assertion::empty();
    window.lock_all(none)?;
    refused!(window.lock_all(none), WinError::EpochMisuse { .. })?;
    refused!(
        window.lock(LockKind::Shared, own, none),
        WinError::EpochMisuse { .. }
    )?;
    refused!(window.fence(none), WinError::EpochMisuse { .. })?;
    refused!(window.start(&[own], none), WinError::EpochMisuse { .. })?;
    refused!(window.post(&[own], none), WinError::EpochMisuse { .. })?;
    refused!(window.unlock(own), WinError::EpochMisuse { .. })?;
    window.unlock_all()?;
    window.post(&[own], none)?;
    refused!(window.post(&[own], none), WinError::EpochMisuse { .. })?;
    refused!(window.fence(none), WinError::EpochMisuse { .. })?;
    refused!(
        window.lock(LockKind::Shared, own, none),
        WinError::EpochMisuse { .. }
    )?;
    window.start(&[own], none)?;
    refused!(window.start(&[own], none), WinError::EpochMisuse { .. })?;
    refused!(window.flush(own), WinError::EpochMisuse { .. })?;
    window.complete()?;
    window.wait()?;
    context.meet()
}

fn requests(context: &Context<'_>) -> Outcome {
    let window = context.window;
    let call = Attempt::new(window);
    let row = Placed::row(Datatype::Uint8, 4);
    let target = row.at(context.next(), 0);
    window.fence(Assertion::NOPRECEDE)?;
    refused!(call.rput(&row.layout, target), WinError::NotPassive { .. })?;
    refused!(call.rget(&row.layout, target), WinError::NotPassive { .. })?;
    window.fence(Assertion::NOSUCCEED)?;
    Ok(())
}

fn assertions(context: &Context<'_>) -> Outcome {
    let window = context.window;
    let call = Attempt::new(window);
    refused!(
        window.fence(Assertion::NOCHECK),
        WinError::BadArgument { .. }
    )?;
    refused!(
        window.lock_all(Assertion::NOPUT),
        WinError::BadArgument { .. }
    )?;
    refused!(
        window.start(&[context.rank], Assertion::NOSTORE),
        WinError::BadArgument { .. }
    )?;
    let row = bytes(1);
    let target = row.at(context.rank, 0);
    window.fence(Assertion::NOPRECEDE | Assertion::NOPUT)?;
    // This call breaks this rank's own promise.
    refused!(call.put(&row, target), WinError::EpochMisuse { .. })?;
    call.get(&row, target)?;
    // Calls preceded this fence.
    refused!(
        window.fence(Assertion::NOPRECEDE),
        WinError::EpochMisuse { .. }
    )?;
    window.fence(Assertion::NOSUCCEED)?;
    Ok(())
}

fn free_in_epoch(context: &Context<'_>) -> Outcome {
    let window = context.allocate(8, 1)?;
    window.lock_all(Assertion::empty())?;
    let window = match window.free() {
        Ok(()) => return Err(Failure::new("a window with an open epoch was freed")),
        Err(refused) => {
            let misuse = matches!(*refused.error, WinError::EpochMisuse { .. });
            ensure(misuse, || format!("free gave {:?}", refused.error))?;
            refused.window
        }
    };
    window.unlock_all()?;
    window.free()?;
    Ok(())
}
