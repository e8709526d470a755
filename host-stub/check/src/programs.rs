//! Random programs: sequences of all kinds of calls, which every rank runs against its model.

use plugin_api::Datatype;

use super::case::{Case, Context, Failure, Outcome, REGION, same};
use super::random::Random;
use super::session::{Buffer, Mode, Session};
use super::shape::{Placed, Shape};
use super::value::{apply, decode, encode, operands};
use host_stub::win::Op;

const PROGRAMS: usize = 4;
const EPOCHS: usize = 3;
const STEPS: usize = 8;
const COUNT: usize = 12;

/// The tests of this file.
pub(super) fn cases() -> Vec<Case> {
    (0..PROGRAMS)
        .map(|number| Case::new(format!("program/{number}"), program))
        .collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Put,
    Get,
    Accumulate,
}

/// One step of one rank in one epoch.
struct Step {
    kind: Kind,
    target: usize,
    displacement: usize,
    origin: Placed,
    remote: Placed,
    data: Vec<u8>,
    op: Op,
}

/// Each rank writes the lower halves of its own regions, gets from the upper quarter, which no rank
/// writes, and all add to the third quarter of rank 0's region everywhere.
fn steps(context: &Context<'_>, rank: usize, epoch: usize) -> Result<Vec<Step>, Failure> {
    let name = format!("{}/{epoch}", context.name);
    let mut random = Random::new(context.seed, &name, rank as u64);
    let slot = REGION / 2 / STEPS;
    (0..STEPS)
        .map(|index| {
            let kind = random.pick(&[Kind::Put, Kind::Get, Kind::Accumulate]);
            let datatype = match kind {
                Kind::Accumulate => Datatype::Int32,
                _ => random.pick(&[Datatype::Uint8, Datatype::Int16, Datatype::Float]),
            };
            let (origin, remote) = (random.pick(&Shape::ALL), random.pick(&Shape::ALL));
            let origin = Placed::new(origin, datatype, COUNT, &mut random)?;
            let remote = Placed::new(remote, datatype, COUNT, &mut random)?;
            let elements = origin.layout.extent() / datatype.size();
            let op = Op::Sum;
            let (displacement, data) = match kind {
                Kind::Put => (
                    context.region(rank) + index * slot + random.below(8),
                    random.bytes(origin.layout.extent()),
                ),
                Kind::Get => (
                    context.region(random.below(context.size)) + REGION / 4 * 3,
                    vec![0; origin.layout.extent()],
                ),
                Kind::Accumulate => (
                    REGION / 2 + 4 * random.below(16),
                    operands(datatype, op, elements, &mut random),
                ),
            };
            Ok(Step {
                kind,
                target: random.below(context.size),
                displacement,
                origin,
                remote,
                data,
                op,
            })
        })
        .collect()
}

fn program(context: &Context<'_>) -> Outcome {
    let window = context.window;
    let mut wanted = context.fill(window)?;
    let mut common = context.common();
    for epoch in 0..EPOCHS {
        let mut session = Session::open(context, window, common.pick(&Mode::ALL))?;
        let mut fetched: Vec<(Buffer, Step)> = Vec::new();
        for step in steps(context, context.rank, epoch)? {
            let buffer = session.buffer(&step.data);
            let target = step.remote.at(step.target, step.displacement as u64);
            match step.kind {
                Kind::Put => session.put(buffer, &step.origin, target)?,
                Kind::Accumulate => session.accumulate(buffer, &step.origin, target, step.op)?,
                Kind::Get => {
                    session.get(buffer, &step.origin, target)?;
                    fetched.push((buffer, step));
                }
            }
        }
        session.close()?;
        for rank in 0..context.size {
            for step in steps(context, rank, epoch)? {
                if step.target == context.rank {
                    model(&step, &mut wanted);
                }
            }
        }
        context.verify(window, &wanted)?;
        for (buffer, step) in fetched {
            let remote = context.initial(step.target, window.len());
            let mut wanted = step.data.clone();
            for (to, from) in step.origin.ranges().zip(step.remote.ranges()) {
                let from = from.start + step.displacement..from.end + step.displacement;
                wanted[to].copy_from_slice(&remote[from]);
            }
            same("got", &session.bytes(buffer)?, &wanted)?;
        }
        // No rank begins the next epoch while another still checks the outcome of this one.
        context.meet()?;
    }
    Ok(())
}

fn model(step: &Step, memory: &mut [u8]) {
    let datatype = step.origin.layout.datatype();
    for (from, to) in step.origin.ranges().zip(step.remote.ranges()) {
        let to = to.start + step.displacement..to.end + step.displacement;
        let operand = &step.data[from];
        match step.kind {
            Kind::Get => {}
            Kind::Put => memory[to].copy_from_slice(operand),
            Kind::Accumulate => {
                let sum = apply(
                    datatype,
                    step.op,
                    decode(datatype, &memory[to.clone()]),
                    decode(datatype, operand),
                );
                memory[to].copy_from_slice(&encode(datatype, sum));
            }
        }
    }
}
