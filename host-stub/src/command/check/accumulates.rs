//! Accumulates of every type and operation that MPI lets go together, against the model.

use plugin_api::Datatype;

use super::case::{Case, Context, Failure, Outcome, REGION, same};
use super::random::Random;
use super::session::{Mode, Session};
use super::shape::{Placed, SPREAD, Shape};
use super::value::{apply, decode, encode, operands};
use crate::win::{Op, Target, Window, type_name};

const COUNT: usize = 12;
/// Accumulates of one origin to one target, of which the order shows.
const ROUNDS: usize = 2;

/// The accumulate calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Accumulate,
    GetAccumulate,
    FetchAndOp,
    Raccumulate,
    RgetAccumulate,
}

impl Call {
    const ALL: [Call; 5] = [
        Call::Accumulate,
        Call::GetAccumulate,
        Call::FetchAndOp,
        Call::Raccumulate,
        Call::RgetAccumulate,
    ];

    const fn name(self) -> &'static str {
        match self {
            Call::Accumulate => "accumulate",
            Call::GetAccumulate => "get_accumulate",
            Call::FetchAndOp => "fetch_and_op",
            Call::Raccumulate => "raccumulate",
            Call::RgetAccumulate => "rget_accumulate",
        }
    }

    const fn fetches(self) -> bool {
        !matches!(self, Call::Accumulate | Call::Raccumulate)
    }

    const fn is_request(self) -> bool {
        matches!(self, Call::Raccumulate | Call::RgetAccumulate)
    }
}

/// The tests of this file.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for call in Call::ALL {
        for datatype in Datatype::ALL {
            for op in Op::ALL {
                let defined = op.is_defined_on(*datatype) && (*op != Op::NoOp || call.fetches());
                // The request forms share all but the counting with the plain ones.
                let wanted = !call.is_request() || matches!(op, Op::Sum | Op::Replace);
                if !defined || !wanted {
                    continue;
                }
                let name = format!("{}/{}/{}", call.name(), type_name(*datatype), op);
                cases.push(Case::new(name, move |context| {
                    own_regions(context, call, *datatype, *op)
                }));
            }
        }
    }
    for datatype in Datatype::ALL {
        for op in Op::ALL.iter().filter(|op| op.is_defined_on(*datatype)) {
            // Every order of these gives the same, so all ranks may update the same elements.
            if !matches!(op, Op::Replace | Op::NoOp) {
                let name = format!("concurrent/{}/{}", type_name(*datatype), op);
                cases.push(Case::new(name, move |context| {
                    common_region(context, *datatype, *op)
                }));
            }
        }
        let name = format!("order/{}", type_name(*datatype));
        cases.push(Case::new(name, move |context| order(context, *datatype)));
    }
    cases
}

/// Sets up typed elements in this rank's part of the window, and in the model of it.
pub(super) fn fill_typed(
    context: &Context<'_>,
    window: &Window,
    datatype: Datatype,
    op: Op,
) -> Result<Vec<u8>, Failure> {
    let bytes = initial_typed(context, context.rank, window.len(), datatype, op);
    window.write_local(0, &bytes)?;
    Ok(bytes)
}

/// What [`fill_typed`] sets up at a rank.
fn initial_typed(
    context: &Context<'_>,
    rank: usize,
    len: usize,
    datatype: Datatype,
    op: Op,
) -> Vec<u8> {
    let mut random = Random::new(context.seed, context.name, 1 << 33 | rank as u64);
    operands(datatype, op, len / datatype.size(), &mut random)
}

/// Applies an operation to one element of a model of memory; returns what was there.
fn update(datatype: Datatype, op: Op, memory: &mut [u8], operand: &[u8]) -> Vec<u8> {
    let old = memory.to_vec();
    let new = apply(
        datatype,
        op,
        decode(datatype, memory),
        decode(datatype, operand),
    );
    if op != Op::NoOp {
        memory.copy_from_slice(&encode(datatype, new));
    }
    old
}

/// One accumulate, as every rank can compute it.
struct Plan {
    target: usize,
    displacement: usize,
    origin: Placed,
    result: Placed,
    remote: Placed,
    data: Vec<u8>,
}

fn plan(
    random: &mut Random,
    target: usize,
    displacement: usize,
    datatype: Datatype,
    op: Op,
    count: usize,
) -> Result<Plan, Failure> {
    let mut placed = || -> Result<Placed, Failure> {
        if count == 1 {
            return Ok(Placed::row(datatype, 1));
        }
        let shape = random.pick(&Shape::ALL);
        Ok(Placed::new(shape, datatype, count, random)?)
    };
    let (origin, result, remote) = (placed()?, placed()?, placed()?);
    let elements = origin.layout.extent() / datatype.size();
    let data = operands(datatype, op, elements, random);
    Ok(Plan {
        target,
        displacement,
        origin,
        result,
        remote,
        data,
    })
}

/// Every origin updates elements that are its own, several times: results and order are exact.
fn own_regions(context: &Context<'_>, call: Call, datatype: Datatype, op: Op) -> Outcome {
    let window = context.window;
    let mode = if call.is_request() {
        context.common().pick(&Mode::PASSIVE)
    } else {
        context.common().pick(&Mode::ALL)
    };
    let count = if call == Call::FetchAndOp { 1 } else { COUNT };
    let plans = |rank: usize| -> Result<Vec<Plan>, Failure> {
        let mut random = context.of_rank(rank);
        let mut plans = Vec::new();
        for target in context.targets(rank) {
            let place = random.below(REGION / datatype.size() - COUNT * SPREAD);
            let displacement = context.region(rank) + place * datatype.size();
            for _ in 0..ROUNDS {
                plans.push(plan(
                    &mut random,
                    target,
                    displacement,
                    datatype,
                    op,
                    count,
                )?);
            }
        }
        Ok(plans)
    };

    let mut wanted = fill_typed(context, window, datatype, op)?;
    let mut session = Session::open(context, window, mode)?;
    let mine = plans(context.rank)?;
    let mut results = Vec::new();
    let mut requests = Vec::new();
    for plan in &mine {
        let from = session.buffer(&plan.data);
        let into = session.buffer(&vec![0xee; plan.result.layout.extent()]);
        let target = Target {
            rank: plan.target,
            displacement: plan.displacement as u64,
            layout: &plan.remote.layout,
        };
        let place = (plan.target, plan.displacement as u64);
        match call {
            Call::Accumulate => session.accumulate(from, &plan.origin, target, op)?,
            Call::Raccumulate => {
                requests.push(session.raccumulate(from, &plan.origin, target, op)?);
            }
            Call::GetAccumulate => {
                session.get_accumulate((from, &plan.origin), (into, &plan.result), target, op)?;
            }
            Call::RgetAccumulate => requests.push(session.rget_accumulate(
                (from, &plan.origin),
                (into, &plan.result),
                target,
                op,
            )?),
            Call::FetchAndOp => session.fetch_and_op(from, into, datatype, place, op)?,
        }
        results.push(into);
    }
    for request in requests {
        request.wait()?;
    }
    session.close()?;

    for rank in 0..context.size {
        // Fetched values are known to their origin, which models its targets' regions for it.
        let mut remote: Vec<Option<Vec<u8>>> = vec![None; context.size];
        for (index, plan) in plans(rank)?.into_iter().enumerate() {
            let memory: &mut Vec<u8> = if plan.target == context.rank {
                &mut wanted
            } else if rank == context.rank {
                remote[plan.target].get_or_insert_with(|| {
                    initial_typed(context, plan.target, window.len(), datatype, op)
                })
            } else {
                continue;
            };
            let mut fetched = vec![0xee; plan.result.layout.extent()];
            let places = plan.origin.ranges().zip(plan.remote.ranges());
            for ((from, to), into) in places.zip(plan.result.ranges()) {
                let to = to.start + plan.displacement..to.end + plan.displacement;
                let old = update(datatype, op, &mut memory[to], &plan.data[from]);
                fetched[into].copy_from_slice(&old);
            }
            if rank == context.rank && call.fetches() {
                same("fetched", &session.bytes(results[index]), &fetched)?;
            }
        }
    }
    context.verify(window, &wanted)
}

/// All origins update the same elements at once.
fn common_region(context: &Context<'_>, datatype: Datatype, op: Op) -> Outcome {
    let window = context.window;
    let mode = context.common().pick(&Mode::ALL);
    let plans = |rank: usize| -> Result<Vec<(Plan, bool)>, Failure> {
        let mut random = context.of_rank(rank);
        let mut plans = Vec::new();
        for target in context.targets(rank) {
            for _ in 0..ROUNDS {
                let fetches = random.below(2) == 1;
                plans.push((plan(&mut random, target, 0, datatype, op, COUNT)?, fetches));
            }
        }
        Ok(plans)
    };
    let mut wanted = fill_typed(context, window, datatype, op)?;
    let mut session = Session::open(context, window, mode)?;
    for (plan, fetches) in plans(context.rank)? {
        let from = session.buffer(&plan.data);
        let target = Target {
            rank: plan.target,
            displacement: 0,
            layout: &plan.remote.layout,
        };
        if fetches {
            let into = session.buffer(&vec![0; plan.result.layout.extent()]);
            session.get_accumulate((from, &plan.origin), (into, &plan.result), target, op)?;
        } else {
            session.accumulate(from, &plan.origin, target, op)?;
        }
    }
    session.close()?;
    for rank in 0..context.size {
        for (plan, _) in plans(rank)? {
            if plan.target == context.rank {
                for (from, to) in plan.origin.ranges().zip(plan.remote.ranges()) {
                    update(datatype, op, &mut wanted[to], &plan.data[from]);
                }
            }
        }
    }
    context.verify(window, &wanted)
}

/// Operations that do not commute, from one origin to one target without a wait in between.
fn order(context: &Context<'_>, datatype: Datatype) -> Outcome {
    let window = context.window;
    let sequence = [
        Op::Replace,
        Op::Sum,
        Op::NoOp,
        Op::Replace,
        Op::Max,
        Op::Sum,
        Op::Replace,
        Op::Min,
    ];
    let mut wanted = fill_typed(context, window, datatype, Op::Sum)?;
    let target = (context.rank + 1) % context.size;
    let row = Placed::row(datatype, 3);
    let data = |rank: usize| -> Vec<Vec<u8>> {
        let mut random = context.of_rank(rank);
        sequence
            .iter()
            .map(|_| operands(datatype, Op::Sum, 3, &mut random))
            .collect()
    };
    let mut session = Session::open(context, window, Mode::LockAll)?;
    let mut results = Vec::new();
    for (op, data) in sequence.iter().zip(data(context.rank)) {
        let from = session.buffer(&data);
        let into = session.buffer(&data);
        let place = Target {
            rank: target,
            displacement: context.region(context.rank) as u64,
            layout: &row.layout,
        };
        session.get_accumulate((from, &row), (into, &row), place, *op)?;
        results.push(into);
    }
    session.close()?;
    let model = |memory: &mut Vec<u8>, origin: usize| -> Vec<Vec<u8>> {
        let region = context.region(origin);
        let mut fetched = Vec::new();
        for (op, data) in sequence.iter().zip(data(origin)) {
            let mut old = Vec::new();
            for at in row.ranges() {
                let to = region + at.start..region + at.end;
                old.extend(update(datatype, *op, &mut memory[to], &data[at]));
            }
            fetched.push(old);
        }
        fetched
    };
    model(
        &mut wanted,
        (context.rank + context.size - 1) % context.size,
    );
    context.verify(window, &wanted)?;
    let mut remote = initial_typed(context, target, window.len(), datatype, Op::Sum);
    for (result, wanted) in results.iter().zip(model(&mut remote, context.rank)) {
        same("fetched", &session.bytes(*result), &wanted)?;
    }
    Ok(())
}
