//! MPI's hints on windows: each is in force or refused, and has its effect.

use host_stub::win::{
    Assertion, Datatype, Info, Layout, LockKind, Op, WinError, Window, WindowKind, unboxed,
};

use super::case::{Case, Context, Failure, Outcome, ensure, same};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("hints/in_force", in_force),
        Case::new("hints/changed_together", changed),
        Case::new("hints/refused_together", refused),
        Case::new("hints/no_locks", no_locks),
        Case::new("hints/same_size", same_size),
        Case::new("hints/updates", updates),
    ]
}

/// Compares the value of a key in force.
fn holds(window: &Window, key: &str, wanted: Option<&str>) -> Outcome {
    let found = window.get_info()?.get(key);
    ensure(found.as_deref() == wanted, || {
        format!("{key} is {found:?}, wanted {wanted:?}")
    })
}

/// Without hints MPI's defaults are in force; a hint that was set has its value.
fn in_force(context: &Context<'_>) -> Outcome {
    let defaults = [
        ("no_locks", "false", "true"),
        ("accumulate_ordering", "rar,raw,war,waw", "none"),
        ("accumulate_ops", "same_op_no_op", "same_op"),
        ("same_size", "false", "true"),
        ("same_disp_unit", "false", "true"),
        ("mpi_accumulate_granularity", "0", "4096"),
    ];
    let window = context.allocate(64, 1)?;
    for (key, value, _) in defaults {
        holds(&window, key, Some(value))?;
    }
    holds(&window, "host_win_table", Some(window.table_name()))?;
    holds(&window, "no_such_key", None)?;
    window.free()?;
    let mut info = context.info.clone().with("no_such_key", "anything")?;
    for (key, _, value) in defaults {
        info.set(key, value)?;
    }
    let window = Window::allocate_with(context.job, 64, 1, &info)?;
    for (key, _, value) in defaults {
        holds(&window, key, Some(value))?;
    }
    // A window made with the hints in force has the same hints in force.
    let again = Window::allocate_with(context.job, 64, 1, &window.get_info()?)?;
    let (first, second) = (window.get_info()?, again.get_info()?);
    again.free()?;
    window.free()?;
    ensure(first == second, || {
        format!("{second:?} of a window made like one with {first:?}")
    })
}

/// set_info changes the named hints only.
fn changed(context: &Context<'_>) -> Outcome {
    let window = context.allocate(64, 1)?;
    let before = window.get_info()?;
    window.set_info(&Info::new().with("accumulate_ordering", "none")?)?;
    holds(&window, "accumulate_ordering", Some("none"))?;
    window.set_info(&Info::new().with("no_locks", "true")?)?;
    let locked = window.lock_all(Assertion::empty());
    ensure(
        matches!(unboxed(&locked), Err(WinError::BadArgument { .. })),
        || format!("lock_all with no_locks gave {locked:?}"),
    )?;
    // The program may set all hints in force again.
    window.set_info(&window.get_info()?)?;
    window.set_info(&before)?;
    let after = window.get_info()?;
    window.lock_all(Assertion::empty())?;
    window.unlock_all()?;
    window.free()?;
    ensure(before == after, || format!("{before:?} became {after:?}"))
}

/// A hint that one rank cannot have changes on no rank.
fn refused(context: &Context<'_>) -> Outcome {
    let window = context.allocate(64, 1)?;
    let before = window.get_info()?;
    let last = context.rank + 1 == context.size;
    let table = match window.table_name() {
        "btl" => "mixed",
        _ => "btl",
    };
    let mut wrong = vec![Info::new().with("host_win_table", table)?];
    if context.size > 1 {
        wrong.push(Info::new().with("no_locks", if last { "true" } else { "false" })?);
        wrong.push(match last {
            true => Info::new().with("host_win_table", table)?,
            false => Info::new().with("accumulate_ops", "same_op")?,
        });
    }
    for info in wrong {
        let found = window.set_info(&info);
        ensure(
            matches!(unboxed(&found), Err(WinError::BadArgument { .. })),
            || format!("{info:?} gave {found:?}"),
        )?;
    }
    let after = window.get_info()?;
    window.lock(LockKind::Shared, context.rank, Assertion::empty())?;
    let held = window.set_info(&Info::new().with("no_locks", "true")?);
    window.unlock(context.rank)?;
    window.free()?;
    ensure(before == after, || format!("{before:?} became {after:?}"))?;
    ensure(
        matches!(unboxed(&held), Err(WinError::BadArgument { .. })),
        || format!("no_locks while a lock is held gave {held:?}"),
    )
}

/// Locks are refused; fences work.
fn no_locks(context: &Context<'_>) -> Outcome {
    let info = context.info.clone().with("no_locks", "true")?;
    let window = Window::allocate_with(context.job, 8 * context.size, 8, &info)?;
    let all = window.lock_all(Assertion::empty());
    let one = window.lock(LockKind::Exclusive, context.rank, Assertion::empty());
    window.fence(Assertion::NOPRECEDE)?;
    let row = Layout::contiguous(Datatype::Uint64, 1);
    let word = context.rank as u64 + 1;
    for rank in 0..context.size {
        let target = row.at(rank, context.rank as u64);
        // SAFETY: the word lives until after the fence.
        unsafe { window.put((&raw const word).cast(), &row, target) }?;
    }
    window.fence(Assertion::NOSUCCEED)?;
    let wanted: Vec<u8> = (1..=context.size as u64)
        .flat_map(u64::to_ne_bytes)
        .collect();
    let outcome = context.verify(&window, &wanted);
    window.free()?;
    outcome?;
    for refused in [all, one] {
        ensure(
            matches!(unboxed(&refused), Err(WinError::BadArgument { .. })),
            || format!("a lock of a window with no_locks gave {refused:?}"),
        )?;
    }
    Ok(())
}

/// Ranks that differ in a property which the info declares equal cannot make a window: the creation
/// fails on all ranks.
fn same_size(context: &Context<'_>) -> Outcome {
    let last = context.rank + 1 == context.size;
    let info = |key| context.info.clone().with(key, "true");
    let made = |len, unit, info: &Info| Window::allocate_with(context.job, len, unit, info);
    for (key, len, unit) in [
        ("same_size", if last { 72 } else { 64 }, 1),
        ("same_disp_unit", 64, if last { 8 } else { 1 }),
    ] {
        let window = made(64, 1, &info(key)?)?;
        window.free()?;
        // Hints that the key does not name may differ.
        let window = made(len, unit, context.info)?;
        let later = window.set_info(&Info::new().with(key, "true")?);
        window.free()?;
        let found = made(len, unit, &info(key)?);
        if context.size == 1 {
            found?.free()?;
            later?;
            continue;
        }
        match found {
            Err(error) if matches!(*error, WinError::Creation { .. }) => {}
            Err(error) => return Err(Failure::new(format!("{key} gave {error}"))),
            Ok(window) => {
                window.free()?;
                return Err(Failure::new(format!("{key} was ignored")));
            }
        }
        ensure(
            matches!(unboxed(&later), Err(WinError::BadArgument { .. })),
            || format!("set_info with {key} gave {later:?}"),
        )?;
    }
    Ok(())
}

/// Sums are right with all hints about accumulates, on aligned and unaligned elements.
fn updates(context: &Context<'_>) -> Outcome {
    const ELEMENTS: usize = 40;
    const ROUNDS: usize = 3;
    for (key, value) in [
        ("accumulate_ordering", "none"),
        ("accumulate_ops", "same_op"),
        ("mpi_accumulate_granularity", "1"),
        ("mpi_accumulate_granularity", "13"),
    ] {
        let info = context.info.clone().with(key, value)?;
        let window = Window::allocate_with(context.job, 1 + 8 * ELEMENTS, 1, &info)?;
        ensure(window.kind() == WindowKind::Allocate, || {
            format!("{:?}", window.kind())
        })?;
        let zeros = vec![0; window.len()];
        // SAFETY: one thread, before the fence that begins the epoch.
        unsafe { window.write_local(0, &zeros) }?;
        for at in [0, 1] {
            let row = Layout::contiguous(Datatype::Int64, ELEMENTS);
            let spread = Layout::strided(Datatype::Int64, ELEMENTS / 2, 1, 2)?;
            let ones = [1i64; ELEMENTS];
            window.fence(Assertion::empty())?;
            for round in 0..ROUNDS {
                let layout = if round == 0 { &spread } else { &row };
                for rank in 0..context.size {
                    let target = layout.at(rank, at);
                    // SAFETY: the operands live until after the fence.
                    unsafe { window.accumulate(ones.as_ptr().cast(), layout, target, Op::Sum) }?;
                }
            }
            window.fence(Assertion::empty())?;
            let mut found = vec![0; 8 * ELEMENTS];
            window.read_local(at as usize, &mut found)?;
            let wanted: Vec<u8> = (0..ELEMENTS)
                .map(|element| ROUNDS - element % 2)
                .flat_map(|times| ((times * context.size) as i64).to_ne_bytes())
                .collect();
            same(&format!("{key} {value}"), &found, &wanted)?;
            // SAFETY: one thread, and the next epoch begins with a fence of all ranks.
            unsafe { window.write_local(0, &zeros) }?;
        }
        window.fence(Assertion::NOSUCCEED)?;
        window.free()?;
    }
    Ok(())
}
