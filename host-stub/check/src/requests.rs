//! Requests: many at once, tested, waited for together, dropped.

use plugin_api::Datatype;

use super::case::{Case, Context, Outcome, same, verify_at};
use super::session::{Mode, Session};
use super::shape::Placed;
use host_stub::win::{Op, Request, Target};

/// The tests of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("requests/wait_all", wait_all),
        Case::new("requests/test", test),
        Case::new("requests/dropped", dropped),
        Case::new("requests/mixed_with_flush", mixed),
    ]
}

const COUNT: usize = 100;
const LEN: usize = 24;

fn data(context: &Context<'_>, rank: usize) -> Vec<u8> {
    context.of_rank(rank).bytes(COUNT * LEN)
}

fn target<'a>(context: &Context<'_>, row: &'a Placed, index: usize) -> Target<'a> {
    row.at(
        context.next(),
        (context.region(context.rank) + index * LEN) as u64,
    )
}

/// Issues a put of each part of this rank's data to the next rank.
fn puts<'a>(
    context: &Context<'_>,
    session: &mut Session<'a>,
    row: &Placed,
) -> Result<Vec<Request<'a>>, super::case::Failure> {
    data(context, context.rank)
        .chunks(LEN)
        .enumerate()
        .map(|(index, part)| {
            let from = session.buffer(part);
            session.rput(from, row, target(context, row, index))
        })
        .collect()
}

fn arrived(context: &Context<'_>) -> Outcome {
    let before = context.previous();
    let mut found = vec![0; COUNT * LEN];
    context
        .window
        .read_local(context.region(before), &mut found)?;
    same("put", &found, &data(context, before))
}

fn wait_all(context: &Context<'_>) -> Outcome {
    let row = Placed::row(Datatype::Uint8, LEN);
    let mut session = Session::open(context, context.window, Mode::LockAll)?;
    Request::wait_all(puts(context, &mut session, &row)?)?;
    // Complete means complete at the target: a get returns the bytes of the put.
    let mut copies = Vec::new();
    for index in 0..COUNT {
        let into = session.buffer(&[0; LEN]);
        let request = session.rget(into, &row, target(context, &row, index))?;
        copies.push((into, request));
    }
    let (buffers, requests): (Vec<_>, Vec<_>) = copies.into_iter().unzip();
    Request::wait_all(requests)?;
    let found: Vec<Vec<u8>> = buffers
        .into_iter()
        .map(|buffer| session.bytes(buffer))
        .collect::<Result<_, _>>()?;
    same("read back", &found.concat(), &data(context, context.rank))?;
    session.close()?;
    arrived(context)
}

fn test(context: &Context<'_>) -> Outcome {
    let row = Placed::row(Datatype::Uint8, LEN);
    let mut session = Session::open(context, context.window, Mode::Locks)?;
    let mut requests = puts(context, &mut session, &row)?;
    while !requests.is_empty() {
        let mut open = Vec::new();
        for mut request in requests {
            if !request.test()? {
                open.push(request);
            }
        }
        requests = open;
        std::thread::yield_now();
    }
    session.close()?;
    arrived(context)
}

/// Dropping a request waits for it.
fn dropped(context: &Context<'_>) -> Outcome {
    let row = Placed::row(Datatype::Uint8, LEN);
    let mut session = Session::open(context, context.window, Mode::LockAll)?;
    drop(puts(context, &mut session, &row)?);
    session.close()?;
    arrived(context)
}

/// Requests and plain calls to the same target; a flush completes both.
fn mixed(context: &Context<'_>) -> Outcome {
    let window = context.window;
    context.clear()?;
    let row = Placed::row(Datatype::Int64, 3);
    let mut session = Session::open(context, window, Mode::LockAll)?;
    let to = row.at(context.next(), context.region(context.rank) as u64);
    let ones = [1i64; 3].map(i64::to_ne_bytes).concat();
    let mut requests = Vec::new();
    for _ in 0..10 {
        let from = session.buffer(&ones);
        session.accumulate(from, &row, to, Op::Sum)?;
        requests.push(session.raccumulate(from, &row, to, Op::Sum)?);
    }
    session.flush(context.next())?;
    for request in &mut requests {
        // The flush completed the request, so no further wait is needed.
        if !request.test()? {
            return Err(super::case::Failure::new("open after a flush"));
        }
    }
    drop(requests);
    session.close()?;
    let before = context.previous();
    verify_at(
        window,
        context.region(before),
        "sum",
        &[20i64; 3].map(i64::to_ne_bytes).concat(),
    )
}
