//! Extreme sizes and places: no elements, many elements, odd addresses, other units, windows
//! without bytes.

use plugin_api::Datatype;

use super::accumulates::fill_typed;
use super::case::{Case, Context, Failure, Outcome, ensure, same};
use super::random::Random;
use super::session::{Mode, Session};
use super::shape::Placed;
use super::value::{apply, decode, encode, operands};
use host_stub::win::{Layout, Op, Target, WinError, unboxed};

/// The tests of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("edges/zero_length", zero_length),
        Case::new("edges/unaligned_transfer", unaligned_transfer),
        Case::new("edges/unaligned_origin", unaligned_origin),
        Case::new("edges/last_byte", last_byte),
        Case::new("edges/units", units),
        Case::new("edges/window_without_bytes", without_bytes),
        Case::new("large/put", |context| large_transfer(context, true)),
        Case::new("large/get", |context| large_transfer(context, false)),
        Case::new("large/strided", large_strided),
        Case::new("large/accumulate", large_accumulate),
    ]
}

/// Every call without elements: allowed, and without effect.
fn zero_length(context: &Context<'_>) -> Outcome {
    let window = context.window;
    let wanted = context.fill(window)?;
    let none = Placed::row(Datatype::Int32, 0);
    let mut session = Session::open(context, window, Mode::LockAll)?;
    for rank in context.targets(context.rank) {
        for displacement in [0, window.len() as u64] {
            let target = none.at(rank, displacement);
            let empty = session.buffer(&[]);
            let other = session.buffer(&[]);
            session.put(empty, &none, target)?;
            session.get(empty, &none, target)?;
            session.accumulate(empty, &none, target, Op::Sum)?;
            session.get_accumulate((empty, &none), (other, &none), target, Op::Sum)?;
            session.rput(empty, &none, target)?.wait()?;
            session.rget(empty, &none, target)?.wait()?;
            session.raccumulate(empty, &none, target, Op::Sum)?.wait()?;
            session
                .rget_accumulate((empty, &none), (other, &none), target, Op::Sum)?
                .wait()?;
        }
    }
    session.close()?;
    context.verify(window, &wanted)
}

/// Puts and gets of odd sizes between odd addresses.
fn unaligned_transfer(context: &Context<'_>) -> Outcome {
    let window = context.window;
    let mut wanted = context.fill(window)?;
    let target = context.next();
    let lengths = [1usize, 3, 7, 31, 255, 1021];
    let places = |rank: usize| {
        let mut random = context.of_rank(rank);
        let mut at = context.region(rank) + 1;
        lengths.map(|len| {
            let place = at;
            at += len + 2 + random.below(5);
            (place, len, 1 + random.below(7), random.bytes(len))
        })
    };
    let mut session = Session::open(context, window, Mode::LockAll)?;
    let mut copies = Vec::new();
    for (place, len, offset, data) in places(context.rank) {
        let row = Placed::row(Datatype::Uint8, len);
        let at = row.at(target, place as u64);
        let from = session.buffer_at(offset, &data);
        session.put(from, &row, at)?;
        session.flush(target)?;
        let into = session.buffer_at(8 - offset, &vec![0; len]);
        session.get(into, &row, at)?;
        copies.push((into, data));
    }
    session.close()?;
    for (into, data) in copies {
        same("read back", &session.bytes(into)?, &data)?;
    }
    let before = context.previous();
    for (place, len, _, data) in places(before) {
        wanted[place..place + len].copy_from_slice(&data);
    }
    context.verify(window, &wanted)
}

/// Accumulates whose origin and result buffers lie at odd addresses.
fn unaligned_origin(context: &Context<'_>) -> Outcome {
    let window = context.window;
    for datatype in Datatype::ALL {
        let row = Placed::row(*datatype, 5);
        let mut wanted = fill_typed(context, window, *datatype)?;
        let before = wanted.clone();
        let at = context.region(context.rank);
        let data = operands(*datatype, Op::Sum, 5, &mut context.of_rank(context.rank));
        let mut session = Session::open(context, window, Mode::LockAll)?;
        let from = session.buffer_at(3, &data);
        let into = session.buffer_at(5, &vec![0; data.len()]);
        let one = session.buffer_at(1, &data[..datatype.size()]);
        let old = session.buffer_at(1, &data[..datatype.size()]);
        let target = row.at(context.rank, at as u64);
        session.get_accumulate((from, &row), (into, &row), target, Op::Sum)?;
        session.accumulate(from, &row, target, Op::Sum)?;
        let place = (context.rank, at as u64);
        session.fetch_and_op(one, old, *datatype, place, Op::Sum)?;
        session.close()?;
        let size = datatype.size();
        let mut add = |index: usize| {
            let place = at + index * size..at + index * size + size;
            let sum = apply(
                *datatype,
                Op::Sum,
                decode(*datatype, &wanted[place.clone()]),
                decode(*datatype, &data[index * size..index * size + size]),
            );
            wanted[place].copy_from_slice(&encode(*datatype, sum));
        };
        for index in (0..5).chain(0..5) {
            add(index);
        }
        let third = wanted[at..at + size].to_vec();
        same("fetched element", &session.bytes(old)?, &third)?;
        // The third increment, of the first element alone.
        let sum = apply(
            *datatype,
            Op::Sum,
            decode(*datatype, &third),
            decode(*datatype, &data[..size]),
        );
        wanted[at..at + size].copy_from_slice(&encode(*datatype, sum));
        same(
            "fetched",
            &session.bytes(into)?,
            &before[at..at + data.len()],
        )?;
        context.verify(window, &wanted)?;
        context.meet()?;
    }
    Ok(())
}

/// A call reaches the last byte of a window, but not the byte after it.
fn last_byte(context: &Context<'_>) -> Outcome {
    let window = context.window;
    let mut wanted = context.fill(window)?;
    let last = window.len() - 1;
    let byte = Placed::row(Datatype::Uint8, 1);
    let target = |displacement| byte.at(context.next(), displacement);
    let mut session = Session::open(context, window, Mode::Fence)?;
    let from = session.buffer(&[0xa5]);
    session.put(from, &byte, target(last as u64))?;
    let beyond = session.put(from, &byte, target(last as u64 + 1));
    session.close()?;
    ensure(beyond.is_err(), || "a put beyond the end was taken".into())?;
    wanted[last] = 0xa5;
    context.verify(window, &wanted)
}

/// Every rank has another length and another displacement unit.
fn units(context: &Context<'_>) -> Outcome {
    let unit = |rank: usize| [1u32, 2, 4, 8, 16][rank % 5];
    let elements = |rank: usize| 8 + rank;
    let window = context.allocate(
        elements(context.rank) * unit(context.rank) as usize,
        unit(context.rank),
    )?;
    let mut wanted = context.fill(&window)?;
    let byte = Placed::row(Datatype::Uint8, 1);
    let mark = |origin: usize, target: usize| {
        Random::new(context.seed, context.name, (origin << 8 | target) as u64).bytes(1)
    };
    let mut session = Session::open(context, &window, Mode::Started)?;
    for rank in 0..context.size {
        let from = session.buffer(&mark(context.rank, rank));
        let target = byte.at(rank, (context.rank % 8) as u64);
        session.put(from, &byte, target)?;
        let beyond = Target {
            displacement: elements(rank) as u64,
            ..target
        };
        ensure(session.put(from, &byte, beyond).is_err(), || {
            format!("a put beyond the window of rank {rank} was taken")
        })?;
    }
    session.close()?;
    // With more than 8 ranks several share a place, and the result there is not determined.
    for origin in 0..context.size.min(8) {
        wanted[origin * unit(context.rank) as usize] = mark(origin, context.rank)[0];
    }
    if context.size <= 8 {
        context.verify(&window, &wanted)?;
    }
    drop(session);
    window.free()?;
    Ok(())
}

/// A rank may have no memory in a window, and still reach the memory of others.
fn without_bytes(context: &Context<'_>) -> Outcome {
    let len = if context.rank == 0 { 16 } else { 0 };
    let window = context.allocate(len, 1)?;
    let row = Layout::contiguous(Datatype::Int64, 1);
    let target = |rank| row.at(rank, 0);
    let one = Box::new(1i64);
    let from: *const i64 = &*one;
    window.fence(host_stub::win::Assertion::NOPRECEDE)?;
    // SAFETY: the box lives until after the fence; an error ends the test early only if nothing was
    // sent.
    unsafe { window.accumulate(from.cast(), &row, target(0), Op::Sum) }?;
    if context.size > 1 {
        // SAFETY: the box lives until after the fence.
        let refused = unsafe { window.put(from.cast(), &row, target(1)) };
        ensure(
            matches!(
                unboxed(&refused),
                Err(WinError::OutOfBounds { limit: 0, .. })
            ),
            || format!("a put to a window of no bytes gave {refused:?}"),
        )?;
    }
    window.fence(host_stub::win::Assertion::NOSUCCEED)?;
    if context.rank == 0 {
        let mut sum = [0; 8];
        window.read_local(0, &mut sum)?;
        let sum = i64::from_ne_bytes(sum);
        ensure(sum == context.size as i64, || format!("sum {sum}"))?;
    }
    window.free()?;
    Ok(())
}

const LARGE: usize = (1 << 20) + 4093;

fn large_transfer(context: &Context<'_>, put: bool) -> Outcome {
    let window = context.allocate(LARGE + 8, 1)?;
    let mut wanted = context.fill(&window)?;
    let target = context.next();
    let row = Placed::row(Datatype::Uint8, LARGE);
    let data = |rank: usize| context.of_rank(rank).bytes(LARGE);
    let mut session = Session::open(context, &window, Mode::LockAll)?;
    let buffer = session.buffer_at(1, &data(context.rank));
    let at = row.at(target, 3);
    if put {
        session.put(buffer, &row, at)?;
    } else {
        session.get(buffer, &row, at)?;
    }
    session.close()?;
    if put {
        let before = context.previous();
        wanted[3..3 + LARGE].copy_from_slice(&data(before));
    } else {
        let remote = context.initial(target, window.len());
        same("got", &session.bytes(buffer)?, &remote[3..3 + LARGE])?;
    }
    context.verify(&window, &wanted)?;
    drop(session);
    window.free()?;
    Ok(())
}

/// Runs of several KiB with gaps; every run is a separate transfer.
fn large_strided(context: &Context<'_>) -> Outcome {
    const RUNS: usize = 9;
    const RUN: usize = 5000;
    const STRIDE: usize = 5555;
    let window = context.allocate(RUNS * STRIDE * 2, 2)?;
    let mut wanted = context.fill(&window)?;
    let target = context.next();
    let strided = Placed {
        layout: Layout::strided(Datatype::Uint16, RUNS, RUN, STRIDE)?,
        places: (0..RUNS)
            .flat_map(|run| run * STRIDE..run * STRIDE + RUN)
            .collect(),
    };
    let row = Placed::row(Datatype::Uint16, RUNS * RUN);
    let data = |rank: usize| context.of_rank(rank).bytes(2 * RUNS * RUN);
    let mut session = Session::open(context, &window, Mode::Fence)?;
    let from = session.buffer(&data(context.rank));
    let at = strided.at(target, 0);
    session.put(from, &row, at)?;
    session.close()?;
    let before = data(context.previous());
    for (from, to) in row.ranges().zip(strided.ranges()) {
        wanted[to].copy_from_slice(&before[from]);
    }
    context.verify(&window, &wanted)?;
    drop(session);
    window.free()?;
    Ok(())
}

/// More elements than one atomic of any provider takes; all ranks update them at once.
fn large_accumulate(context: &Context<'_>) -> Outcome {
    const COUNT: usize = 5000;
    let datatype = Datatype::Int32;
    let window = context.allocate(COUNT * 4, 4)?;
    let mut wanted = fill_typed(context, &window, datatype)?;
    let row = Placed::row(datatype, COUNT);
    let data = |rank: usize| -> Result<Vec<u8>, Failure> {
        let mut random = context.of_rank(rank);
        Ok(operands(datatype, Op::Sum, COUNT, &mut random))
    };
    let mut session = Session::open(context, &window, Mode::LockAll)?;
    let from = session.buffer(&data(context.rank)?);
    let into = session.buffer(&vec![0; COUNT * 4]);
    let at = row.at(0, 0);
    session.accumulate(from, &row, at, Op::Sum)?;
    session.get_accumulate((from, &row), (into, &row), at, Op::Sum)?;
    session.close()?;
    if context.rank == 0 {
        for rank in 0..context.size {
            let data = data(rank)?;
            for place in row.ranges() {
                for _ in 0..2 {
                    let sum = apply(
                        datatype,
                        Op::Sum,
                        decode(datatype, &wanted[place.clone()]),
                        decode(datatype, &data[place.clone()]),
                    );
                    wanted[place.clone()].copy_from_slice(&encode(datatype, sum));
                }
            }
        }
    }
    context.verify(&window, &wanted)?;
    drop(session);
    window.free()?;
    Ok(())
}
