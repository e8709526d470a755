//! Updates of one element by all ranks at once, whose outcome shows whether each was atomic.

use plugin_api::Datatype;

use super::case::{Case, Context, Failure, Outcome, ensure};
use super::session::{Mode, Session};
use super::shape::Placed;
use super::value::{Value, decode, encode};
use host_stub::win::{Assertion, LockKind, Op, type_name};

/// Increments per rank: small enough for an 8-bit count of many ranks.
const ROUNDS: usize = 4;

/// The tests of this file.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for datatype in Datatype::ALL {
        let name = type_name(*datatype);
        cases.push(Case::new(
            format!("atomic/fetch_and_op/{name}"),
            |context| tickets(context, *datatype, 0),
        ));
        cases.push(Case::new(format!("atomic/mixed/{name}"), |context| {
            mixed(context, *datatype, 0)
        }));
        if datatype.size() > 1 {
            cases.push(Case::new(format!("atomic/unaligned/{name}"), |context| {
                tickets(context, *datatype, 1)?;
                mixed(context, *datatype, 1)
            }));
        }
        if !datatype.is_float() {
            cases.push(Case::new(
                format!("atomic/compare_and_swap/{name}"),
                |context| swaps(context, *datatype, 0),
            ));
            if datatype.size() > 1 {
                cases.push(Case::new(
                    format!("atomic/compare_and_swap_unaligned/{name}"),
                    |context| swaps(context, *datatype, 1),
                ));
            }
        }
    }
    cases.push(Case::new("atomic/exclusive_lock", exclusive));
    cases
}

fn number(datatype: Datatype, bytes: &[u8]) -> i64 {
    match decode(datatype, bytes) {
        Value::Integer(value) => value as i64,
        Value::Real(value) => whole(value),
    }
}

/// A separate function, so that the compiler converts no value before the check that it is a number: otherwise valgrind reports
/// unwritten bytes of other values.
#[inline(never)]
fn whole(value: f64) -> i64 {
    value as i64
}

fn one(datatype: Datatype) -> Vec<u8> {
    encode(datatype, Value::Integer(1))
}

/// The counter's place at rank 0.
const COUNTER: usize = 64;

fn counter(context: &Context<'_>, datatype: Datatype, offset: usize) -> Result<i64, Failure> {
    let mut bytes = vec![0; datatype.size()];
    context.window.read_local(COUNTER + offset, &mut bytes)?;
    Ok(number(datatype, &bytes))
}

/// Rank 0's counter equals the number of increments.
fn counted(context: &Context<'_>, datatype: Datatype, offset: usize, wanted: usize) -> Outcome {
    if context.rank != 0 {
        return Ok(());
    }
    let found = counter(context, datatype, offset)?;
    ensure(found == wanted as i64, || {
        format!("{found} increments arrived of {wanted}")
    })
}

/// Each increment fetches a different number.
fn tickets(context: &Context<'_>, datatype: Datatype, offset: usize) -> Outcome {
    let rounds = rounds(context, datatype);
    context.clear()?;
    let mut session = Session::open(context, context.window, Mode::LockAll)?;
    let mut results = Vec::new();
    for _ in 0..rounds {
        let from = session.buffer(&one(datatype));
        let into = session.buffer(&one(datatype));
        let place = (0, (COUNTER + offset) as u64);
        session.fetch_and_op(from, into, datatype, place, Op::Sum)?;
        results.push(into);
    }
    session.close()?;
    let mine: Vec<i64> = results
        .iter()
        .map(|result| Ok(number(datatype, &session.bytes(*result)?)))
        .collect::<Result<_, Failure>>()?;
    let mut tickets = context.gather(&mine)?;
    tickets.sort_unstable();
    let wanted: Vec<i64> = (0..(rounds * context.size) as i64).collect();
    ensure(tickets == wanted, || {
        format!("tickets fetched: {tickets:?}")
    })?;
    ensure(mine.is_sorted(), || {
        format!("tickets of one rank out of order: {mine:?}")
    })?;
    counted(context, datatype, offset, rounds * context.size)
}

fn rounds(context: &Context<'_>, datatype: Datatype) -> usize {
    let room = if datatype.size() == 1 { 126 } else { 1 << 14 };
    ROUNDS.min(room / (4 * context.size)).max(1)
}

/// Increments by every call that can increment, at the same element.
fn mixed(context: &Context<'_>, datatype: Datatype, offset: usize) -> Outcome {
    let rounds = rounds(context, datatype);
    context.clear()?;
    let mut session = Session::open(context, context.window, Mode::Locks)?;
    let row = Placed::row(datatype, 1);
    let displacement = (COUNTER + offset) as u64;
    let target = row.at(0, displacement);
    for _ in 0..rounds {
        let from = session.buffer(&one(datatype));
        let into = session.buffer(&one(datatype));
        session.accumulate(from, &row, target, Op::Sum)?;
        session.get_accumulate((from, &row), (into, &row), target, Op::Sum)?;
        let into = session.buffer(&one(datatype));
        session.fetch_and_op(from, into, datatype, (0, displacement), Op::Sum)?;
        session.flush(0)?;
    }
    session.close()?;
    counted(context, datatype, offset, 3 * rounds * context.size)
}

/// Increments by compare-and-swap.
fn swaps(context: &Context<'_>, datatype: Datatype, offset: usize) -> Outcome {
    let rounds = rounds(context, datatype);
    context.clear()?;
    let mut session = Session::open(context, context.window, Mode::LockAll)?;
    let place = (0, (COUNTER + offset) as u64);
    for _ in 0..rounds {
        let mut old = encode(datatype, Value::Integer(0));
        loop {
            let next = number(datatype, &old) + 1;
            let from = session.buffer(&encode(datatype, Value::Integer(i128::from(next))));
            let compare = session.buffer(&old);
            let into = session.buffer(&old);
            session.compare_and_swap((from, compare, into), datatype, place)?;
            session.flush(0)?;
            let found = session.bytes(into)?;
            if found == old {
                break;
            }
            old = found;
        }
    }
    session.close()?;
    counted(context, datatype, offset, rounds * context.size)
}

/// Increments by get and put, which only an exclusive lock separates.
fn exclusive(context: &Context<'_>) -> Outcome {
    let window = context.window;
    context.clear()?;
    context.meet()?;
    let row = Placed::row(Datatype::Int64, 1);
    let target = row.at(0, COUNTER as u64);
    for _ in 0..ROUNDS {
        window.lock(LockKind::Exclusive, 0, Assertion::empty())?;
        // Freed only after all operations have ended: an error in between leaks it.
        let count = Box::into_raw(Box::new(0u64));
        // SAFETY: the box lives until after the flush.
        let read = unsafe { window.get(count.cast(), &row.layout, target) };
        read.and_then(|()| window.flush(0))?;
        // SAFETY: the get is complete, so nobody else uses the box.
        unsafe { *count += 1 };
        // SAFETY: the box lives until after the unlock.
        let written = unsafe { window.put(count.cast(), &row.layout, target) };
        written.and_then(|()| window.unlock(0))?;
        // SAFETY: made by into_raw above, and the unlock completed the last operation on it.
        drop(unsafe { Box::from_raw(count) });
    }
    context.meet()?;
    counted(context, Datatype::Int64, 0, ROUNDS * context.size)
}
