//! Accumulates of every type with every operation that MPI allows for it, against the model.

use plugin_api::Datatype;

use super::case::{Case, Context, Failure, Outcome, REGION, same};
use super::random::Random;
use super::session::{Mode, Session};
use super::shape::{Placed, SPREAD, Shape};
use super::value::{apply, decode, encode, operands};
use host_stub::win::{Op, Window, type_name};

const COUNT: usize = 12;
/// Accumulates of one origin to one target whose results show their order.
const ROUNDS: usize = 2;

osc_engine::named_enum! {
    /// The accumulate calls.
    enum Call {
        Accumulate = "accumulate",
        GetAccumulate = "get_accumulate",
        FetchAndOp = "fetch_and_op",
        Raccumulate = "raccumulate",
        RgetAccumulate = "rget_accumulate",
    }
}

impl Call {
    const fn fetches(self) -> bool {
        !matches!(self, Call::Accumulate | Call::Raccumulate)
    }

    const fn is_request(self) -> bool {
        matches!(self, Call::Raccumulate | Call::RgetAccumulate)
    }
}

/// Elements of a type at multiples of their size, from a byte on.
#[derive(Clone, Copy)]
struct Elements {
    datatype: Datatype,
    first: usize,
}

/// Elements of every type, aligned and not.
fn kinds() -> impl Iterator<Item = (String, Elements)> {
    let aligned = Datatype::ALL.iter().map(|datatype| (*datatype, 0));
    let wide = Datatype::ALL.iter().filter(|datatype| datatype.size() > 1);
    let unaligned = wide.map(|datatype| (*datatype, 1));
    aligned.chain(unaligned).map(|(datatype, first)| {
        let name = match first {
            0 => type_name(datatype).to_owned(),
            _ => format!("{}/unaligned", type_name(datatype)),
        };
        (name, Elements { datatype, first })
    })
}

/// The tests of this file. Each goes through every operation that is defined on its type.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for call in Call::ALL {
        for (name, elements) in kinds() {
            let name = format!("{}/{name}", call.name());
            cases.push(Case::new(name, move |context| {
                own_regions(context, call, elements)
            }));
        }
    }
    for (name, elements) in kinds() {
        let name = format!("concurrent/{name}");
        cases.push(Case::new(name, move |context| {
            common_region(context, elements)
        }));
    }
    for datatype in Datatype::ALL {
        let name = format!("order/{}", type_name(*datatype));
        cases.push(Case::new(name, move |context| order(context, *datatype)));
    }
    cases
}

/// Bytes of a region for the elements of one operation, with room for a shift by [`JITTER`].
const SLOT: usize = COUNT * SPREAD * 8 + JITTER * 8;
/// Maximum shift of an operation's place, in elements.
const JITTER: usize = 8;
const _: () = assert!(SLOT * Op::ALL.len() <= REGION);

/// The operations of a test, each with the place of its elements within a region.
fn slots(datatype: Datatype, wanted: impl Fn(Op) -> bool) -> impl Iterator<Item = (Op, usize)> {
    Op::ALL
        .iter()
        .enumerate()
        .map(|(index, op)| (*op, index * SLOT))
        .filter(move |(op, _)| op.is_defined_on(datatype) && wanted(*op))
}

/// Sets up typed elements in this rank's part of the window, and in its model.
pub(super) fn fill_typed(
    context: &Context<'_>,
    window: &Window,
    datatype: Datatype,
) -> Result<Vec<u8>, Failure> {
    fill(context, window, Elements { datatype, first: 0 })
}

fn fill(context: &Context<'_>, window: &Window, elements: Elements) -> Result<Vec<u8>, Failure> {
    let bytes = initial(context, context.rank, window.len(), elements);
    // SAFETY: this rank has one thread here, and no operation of it is under way on the window.
    unsafe { window.write_local(0, &bytes) }?;
    Ok(bytes)
}

/// The bytes that [`fill`] sets up at a rank: elements to which any operation may be applied.
fn initial(context: &Context<'_>, rank: usize, len: usize, elements: Elements) -> Vec<u8> {
    let mut random = Random::new(context.seed, context.name, 1 << 33 | rank as u64);
    let datatype = elements.datatype;
    let mut bytes = operands(datatype, Op::Prod, len / datatype.size(), &mut random);
    bytes.rotate_right(elements.first);
    bytes
}

/// Applies an operation to one element of a model of memory; returns the old element.
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
    op: Op,
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
        op,
        target,
        displacement,
        origin,
        result,
        remote,
        data,
    })
}

/// Every origin updates its own elements several times: results and order are exact.
fn own_regions(context: &Context<'_>, call: Call, elements: Elements) -> Outcome {
    let Elements { datatype, first } = elements;
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
            for (op, slot) in slots(datatype, |op| op != Op::NoOp || call.fetches()) {
                let moved = random.below(JITTER) * datatype.size();
                let place = context.region(rank) + slot + moved + first;
                for _ in 0..ROUNDS {
                    plans.push(plan(&mut random, target, place, datatype, op, count)?);
                }
            }
        }
        Ok(plans)
    };

    let mut wanted = fill(context, window, elements)?;
    let mut session = Session::open(context, window, mode)?;
    let mine = plans(context.rank)?;
    let mut results = Vec::new();
    let mut requests = Vec::new();
    for plan in &mine {
        let from = session.buffer(&plan.data);
        let into = session.buffer(&vec![0xee; plan.result.layout.extent()]);
        let target = plan.remote.at(plan.target, plan.displacement as u64);
        let place = (plan.target, plan.displacement as u64);
        let (origin, result) = ((from, &plan.origin), (into, &plan.result));
        match call {
            Call::Accumulate => session.accumulate(from, &plan.origin, target, plan.op)?,
            Call::Raccumulate => {
                requests.push(session.raccumulate(from, &plan.origin, target, plan.op)?);
            }
            Call::GetAccumulate => session.get_accumulate(origin, result, target, plan.op)?,
            Call::RgetAccumulate => {
                requests.push(session.rget_accumulate(origin, result, target, plan.op)?);
            }
            Call::FetchAndOp => session.fetch_and_op(from, into, datatype, place, plan.op)?,
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
                remote[plan.target]
                    .get_or_insert_with(|| initial(context, plan.target, window.len(), elements))
            } else {
                continue;
            };
            let fetched = model(&plan, memory);
            if rank == context.rank && call.fetches() {
                let what = format!("fetched by {}", plan.op);
                same(&what, &session.bytes(results[index])?, &fetched)?;
            }
        }
    }
    verify_slots(context, window, &wanted)
}

/// Applies a plan to a model of its target's memory; returns the expected result buffer.
fn model(plan: &Plan, memory: &mut [u8]) -> Vec<u8> {
    let datatype = plan.remote.layout.datatype();
    let mut fetched = vec![0xee; plan.result.layout.extent()];
    let places = plan.origin.ranges().zip(plan.remote.ranges());
    for ((from, to), into) in places.zip(plan.result.ranges()) {
        let to = to.start + plan.displacement..to.end + plan.displacement;
        let old = update(datatype, plan.op, &mut memory[to], &plan.data[from]);
        fetched[into].copy_from_slice(&old);
    }
    fetched
}

/// Compares the window with the model; the message for a difference names the operation.
fn verify_slots(context: &Context<'_>, window: &Window, wanted: &[u8]) -> Outcome {
    let mut found = vec![0; wanted.len()];
    window.read_local(0, &mut found)?;
    for (origin, region) in wanted.chunks(REGION).enumerate() {
        for (index, slot) in region.chunks(SLOT).enumerate() {
            let at = origin * REGION + index * SLOT;
            let op = Op::ALL.get(index).map_or("nothing", |op| op.name());
            let what = format!("window of rank {}, region {origin}, {op}", context.rank);
            same(&what, &found[at..at + slot.len()], slot)?;
        }
    }
    Ok(())
}

/// All origins update the same elements at once.
fn common_region(context: &Context<'_>, elements: Elements) -> Outcome {
    let Elements { datatype, first } = elements;
    let window = context.window;
    let mode = context.common().pick(&Mode::ALL);
    // The results of these operations do not depend on their order.
    let commutes = |op| !matches!(op, Op::Replace | Op::NoOp);
    let plans = |rank: usize| -> Result<Vec<(Plan, bool)>, Failure> {
        let mut random = context.of_rank(rank);
        let mut plans = Vec::new();
        for target in context.targets(rank) {
            for (op, slot) in slots(datatype, commutes) {
                for _ in 0..ROUNDS {
                    let fetches = random.below(2) == 1;
                    let place = slot + first;
                    let plan = plan(&mut random, target, place, datatype, op, COUNT)?;
                    plans.push((plan, fetches));
                }
            }
        }
        Ok(plans)
    };
    let mut wanted = fill(context, window, elements)?;
    let mut session = Session::open(context, window, mode)?;
    for (plan, fetches) in plans(context.rank)? {
        let from = session.buffer(&plan.data);
        let target = plan.remote.at(plan.target, plan.displacement as u64);
        if fetches {
            let into = session.buffer(&vec![0; plan.result.layout.extent()]);
            let (origin, result) = ((from, &plan.origin), (into, &plan.result));
            session.get_accumulate(origin, result, target, plan.op)?;
        } else {
            session.accumulate(from, &plan.origin, target, plan.op)?;
        }
    }
    session.close()?;
    for rank in 0..context.size {
        for (plan, _) in plans(rank)? {
            if plan.target == context.rank {
                model(&plan, &mut wanted);
            }
        }
    }
    verify_slots(context, window, &wanted)
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
    let mut wanted = fill_typed(context, window, datatype)?;
    let target = context.next();
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
        let place = row.at(target, context.region(context.rank) as u64);
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
    model(&mut wanted, context.previous());
    context.verify(window, &wanted)?;
    let elements = Elements { datatype, first: 0 };
    let mut remote = initial(context, target, window.len(), elements);
    for (result, wanted) in results.iter().zip(model(&mut remote, context.rank)) {
        same("fetched", &session.bytes(*result)?, &wanted)?;
    }
    Ok(())
}
