//! Puts with notification: a rank that sees the count sees the bytes.

use plugin_api::Datatype;

use super::case::{Case, Context, Failure, Outcome, ensure, same, verify_at};
use super::random::Random;
use super::session::{Mode, Session};
use super::shape::Placed;
use host_stub::win::{COUNTERS, Layout, WinError, Window, unboxed};

/// The tests of this file.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("notify/many_origins", many_origins),
        Case::new("notify/misuse", misuse),
    ];
    for mode in [Mode::Fence, Mode::LockAll, Mode::Locks] {
        cases.push(Case::new(format!("notify/{mode:?}"), move |context| {
            ring(context, mode)
        }));
    }
    cases
}

const ROUNDS: usize = 24;
/// Bytes of a round's place: longer than the largest message, and than the largest put of some
/// providers.
const LONGEST: usize = 20_000;

/// The bytes that a rank puts in each round.
fn parts(context: &Context<'_>, rank: usize) -> Vec<Vec<u8>> {
    let mut random: Random = context.of_rank(rank);
    (0..ROUNDS)
        .map(|_| {
            let len = random.pick(&[0, 1, 8, 100, 4096, 4097, LONGEST]);
            random.bytes(len)
        })
        .collect()
}

/// Each rank notifies the next, and checks the bytes of the previous rank after their notification, with its own epoch
/// still open.
fn ring(context: &Context<'_>, mode: Mode) -> Outcome {
    let window = context.allocate(ROUNDS * LONGEST, 1)?;
    let (next, before) = (context.next(), context.previous());
    let (mine, theirs) = (parts(context, context.rank), parts(context, before));
    let mut session = Session::open(context, &window, mode)?;
    for (round, (part, wanted)) in mine.iter().zip(&theirs).enumerate() {
        let from = session.buffer(part);
        let row = Placed::row(Datatype::Uint8, part.len());
        let target = row.at(next, (round * LONGEST) as u64);
        let (counter, count) = (round % COUNTERS, (round / COUNTERS) as u64 + 1);
        session.put_notify(from, &row, target, counter)?;
        if round % 2 == 0 {
            window.wait_notified(counter, count)?;
        }
        while window.notifications(counter)? < count {
            std::thread::yield_now();
        }
        let mut found = vec![0; wanted.len()];
        window.read_local(round * LONGEST, &mut found)?;
        same("counted", &found, wanted)?;
    }
    session.close()?;
    drop(session);
    context.meet()?;
    exactly(&window, &[(ROUNDS / COUNTERS) as u64; COUNTERS])?;
    context.meet()?;
    Ok(window.free()?)
}

fn exactly(window: &Window, wanted: &[u64; COUNTERS]) -> Outcome {
    for (counter, wanted) in wanted.iter().enumerate() {
        let found = window.notifications(counter)?;
        ensure(found == *wanted, || {
            format!("counter {counter} is {found}, wanted {wanted}")
        })?;
    }
    Ok(())
}

/// All ranks notify one counter of rank 0, with rows and with gaps between the elements.
fn many_origins(context: &Context<'_>) -> Outcome {
    const PARTS: usize = 12;
    const LEN: usize = 64;
    let window = context.allocate(context.size * PARTS * 2 * LEN, 1)?;
    let data = |rank| context.of_rank(rank).bytes(PARTS * LEN);
    let place = |rank: usize, part: usize| (rank * PARTS + part) * 2 * LEN;
    let row = Placed::row(Datatype::Uint8, LEN);
    let gaps = Layout::strided(Datatype::Uint8, LEN / 4, 4, 8)?;
    let layout = |part: usize| {
        if part.is_multiple_of(3) {
            &gaps
        } else {
            &row.layout
        }
    };
    let mut session = Session::open(context, &window, Mode::LockAll)?;
    for (part, bytes) in data(context.rank).chunks(LEN).enumerate() {
        let from = session.buffer(bytes);
        let target = layout(part).at(0, place(context.rank, part) as u64);
        session.put_notify(from, &row, target, 3)?;
    }
    if context.rank == 0 {
        let all = context.size * PARTS;
        window.wait_notified(3, all as u64)?;
        for rank in 0..context.size {
            for (part, wanted) in data(rank).chunks(LEN).enumerate() {
                let mut found = vec![0; layout(part).extent()];
                window.read_local(place(rank, part), &mut found)?;
                same("of many origins", &layout(part).gather(&found)?, wanted)?;
            }
        }
    }
    session.close()?;
    drop(session);
    context.meet()?;
    let mut wanted = [0; COUNTERS];
    if context.rank == 0 {
        wanted[3] = (context.size * PARTS) as u64;
    }
    exactly(&window, &wanted)?;
    context.meet()?;
    Ok(window.free()?)
}

/// Counters that do not exist, ranges outside the window, and calls without an epoch: nothing is counted.
fn misuse(context: &Context<'_>) -> Outcome {
    let window = context.allocate(64, 1)?;
    let row = Layout::contiguous(Datatype::Uint8, 8);
    let next = context.next();
    let from = [1u8; 8];
    let put = |displacement, counter| {
        let target = row.at(next, displacement);
        // SAFETY: the bytes outlive the window.
        unsafe { window.put_notify(from.as_ptr(), &row, target, counter) }
    };
    let refused = |what: &str, holds: bool| {
        ensure(holds, || format!("{what} was not refused as it should be"))
    };
    refused(
        "a put without an epoch",
        matches!(unboxed(&put(0, 0)), Err(WinError::OutsideEpoch { .. })),
    )?;
    window.lock_all(host_stub::win::Assertion::empty())?;
    let argument = |result: Result<_, Box<WinError>>| {
        matches!(unboxed(&result), Err(WinError::BadArgument { .. }))
    };
    refused("a put's counter", argument(put(0, COUNTERS)))?;
    refused(
        "a wait's counter",
        argument(window.wait_notified(COUNTERS, 0)),
    )?;
    refused(
        "a test's counter",
        argument(window.notifications(usize::MAX).map(drop)),
    )?;
    refused(
        "a put behind the window",
        matches!(unboxed(&put(60, 0)), Err(WinError::OutOfBounds { .. })),
    )?;
    window.unlock_all()?;
    context.meet()?;
    exactly(&window, &[0; COUNTERS])?;
    verify_at(&window, 0, "nothing was put", &[0; 64])?;
    context.meet()?;
    window.free().map_err(Failure::from)
}
