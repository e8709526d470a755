//! Put and get, and their request forms, between every two layouts.

use plugin_api::Datatype;

use super::case::{Case, Context, Failure, Outcome, REGION, ensure, same, verify_at};
use super::random::Random;
use super::session::{Mode, Session};
use super::shape::{Placed, Shape};
use host_stub::win::{Layout, Op};

const COUNT: usize = 24;

osc_engine::named_enum! {
    /// The transfer calls.
    enum Call {
        Put = "put",
        Get = "get",
        Rput = "rput",
        Rget = "rget",
    }
}

impl Call {
    const fn writes(self) -> bool {
        matches!(self, Call::Put | Call::Rput)
    }
}

/// The tests of this file.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for call in Call::ALL {
        for origin in Shape::ALL {
            for target in Shape::ALL {
                let name = format!("{}/{}-{}", call.name(), origin.name(), target.name());
                cases.push(Case::new(name, move |context| {
                    between(context, call, origin, target)
                }));
            }
        }
        for datatype in Datatype::ALL {
            let name = format!("{}/{}", call.name(), host_stub::win::type_name(*datatype));
            cases.push(Case::new(name, move |context| {
                of_type(context, call, *datatype)
            }));
        }
    }
    cases.push(Case::new("put/columns", columns));
    cases
}

/// One transfer, as every rank can compute it.
struct Plan {
    target: usize,
    displacement: usize,
    origin: Placed,
    remote: Placed,
    data: Vec<u8>,
}

fn plans(
    context: &Context<'_>,
    rank: usize,
    mut make: impl FnMut(&mut Random) -> Result<(Placed, Placed), Failure>,
) -> Result<Vec<Plan>, Failure> {
    let mut random = context.of_rank(rank);
    let half = REGION / 2;
    context
        .targets(rank)
        .into_iter()
        .enumerate()
        .map(|(index, target)| {
            let (origin, remote) = make(&mut random)?;
            let data = random.bytes(origin.layout.extent());
            Ok(Plan {
                target,
                displacement: context.region(rank) + index * half + random.below(8),
                origin,
                remote,
                data,
            })
        })
        .collect()
}

fn between(context: &Context<'_>, call: Call, origin: Shape, target: Shape) -> Outcome {
    let datatype = context.common().pick(Datatype::ALL);
    run(context, call, |random| {
        Ok((
            Placed::new(origin, datatype, COUNT, random)?,
            Placed::new(target, datatype, COUNT, random)?,
        ))
    })
}

fn of_type(context: &Context<'_>, call: Call, datatype: Datatype) -> Outcome {
    run(context, call, |random| {
        let shape = random.pick(&Shape::ALL);
        Ok((
            Placed::new(shape, datatype, COUNT, random)?,
            Placed::row(datatype, COUNT),
        ))
    })
}

fn run(
    context: &Context<'_>,
    call: Call,
    make: impl Fn(&mut Random) -> Result<(Placed, Placed), Failure>,
) -> Outcome {
    let window = context.window;
    let mode = match call {
        Call::Put | Call::Get => context.common().pick(&Mode::ALL),
        Call::Rput | Call::Rget => context.common().pick(&Mode::PASSIVE),
    };
    let mut wanted = context.fill(window)?;
    let mut session = Session::open(context, window, mode)?;
    let mine = plans(context, context.rank, &make)?;
    let mut buffers = Vec::new();
    let mut requests = Vec::new();
    for plan in &mine {
        let buffer = session.buffer(&plan.data);
        let target = plan.remote.at(plan.target, plan.displacement as u64);
        match call {
            Call::Put => session.put(buffer, &plan.origin, target)?,
            Call::Get => session.get(buffer, &plan.origin, target)?,
            Call::Rput => requests.push(session.rput(buffer, &plan.origin, target)?),
            Call::Rget => requests.push(session.rget(buffer, &plan.origin, target)?),
        }
        buffers.push(buffer);
    }
    for request in requests {
        request.wait()?;
    }
    session.close()?;

    for rank in 0..context.size {
        for plan in plans(context, rank, &make)? {
            if call.writes() && plan.target == context.rank {
                for (from, to) in plan.origin.ranges().zip(plan.remote.ranges()) {
                    let to = to.start + plan.displacement..to.end + plan.displacement;
                    wanted[to].copy_from_slice(&plan.data[from]);
                }
            }
        }
    }
    context.verify(window, &wanted)?;
    for (plan, buffer) in mine.iter().zip(&buffers) {
        let mut wanted = plan.data.clone();
        if !call.writes() {
            let remote = context.initial(plan.target, window.len());
            for (to, from) in plan.origin.ranges().zip(plan.remote.ranges()) {
                let from = from.start + plan.displacement..from.end + plan.displacement;
                wanted[to].copy_from_slice(&remote[from]);
            }
        }
        same("origin buffer", &session.bytes(*buffer)?, &wanted)?;
    }
    Ok(())
}

/// Every rank puts its own column and gets it back, while all ranks add to the words between the
/// columns.
fn columns(context: &Context<'_>) -> Outcome {
    const ROUNDS: usize = 3;
    /// One row has a word of the column and a word between the columns.
    const ROWS: usize = REGION / 16;
    let window = context.window;
    context.clear()?;
    let column = Placed {
        layout: Layout::strided(Datatype::Int64, ROWS, 1, 2)?,
        places: (0..ROWS).map(|row| 2 * row).collect(),
    };
    let packed = Placed::row(Datatype::Int64, ROWS);
    let value =
        |origin: usize, target: usize, row: usize| (origin * 1000 + target * 100_000 + row) as i64;
    let mut session = Session::open(context, window, context.common().pick(&Mode::PASSIVE))?;
    let ones = session.buffer(&[1i64; ROWS].map(i64::to_ne_bytes).concat());
    let mut copies = Vec::new();
    for target in 0..context.size {
        let at = |region: usize, word: usize| {
            column.at(target, (context.region(region) + 8 * word) as u64)
        };
        let rows = (0..ROWS).flat_map(|row| value(context.rank, target, row).to_ne_bytes());
        let values: Vec<u8> = rows.collect();
        let from = session.buffer(&values);
        for _ in 0..ROUNDS {
            session.put(from, &packed, at(context.rank, 0))?;
            for region in 0..context.size {
                session.accumulate(ones, &packed, at(region, 1), Op::Sum)?;
            }
        }
        session.flush(target)?;
        let into = session.buffer(&vec![7; 16 * ROWS]);
        session.get(into, &column, at(context.rank, 0))?;
        copies.push((into, values));
    }
    session.close()?;
    for (into, values) in copies {
        let found = session.bytes(into)?;
        let words = found.as_chunks::<8>().0;
        let got: Vec<u8> = words.iter().step_by(2).flatten().copied().collect();
        same("column", &got, &values)?;
        let between = words.iter().skip(1).step_by(2);
        ensure(between.clone().all(|word| *word == [7; 8]), || {
            "bytes between the rows at the origin were written".to_owned()
        })?;
    }
    let sum = (ROUNDS * context.size) as i64;
    let mut wanted = Vec::new();
    for origin in 0..context.size {
        for row in 0..ROWS {
            wanted.extend(value(origin, context.rank, row).to_ne_bytes());
            wanted.extend(sum.to_ne_bytes());
        }
    }
    verify_at(window, 0, "window", &wanted)
}
