//! Accumulates of elements that only the program knows: numbers of two parts, values with their places, and elements whose
//! values are not contiguous.

use std::slice;

use plugin_api::{Datatype, Status};

use super::case::{Case, Context, Failure, Outcome, ensure, same, say};
use super::random::Random;
use super::session::{Mode, Session};
use super::shape::{Placed, SPREAD, Shape};
use host_stub::win::{
    Assertion, Block, Custom, CustomOp, Layout, LockKind, WinError, WinResult, Window, unboxed,
};

const COUNT: usize = 12;
/// Bytes from a multiple of every alignment to the first element.
const FIRST: [usize; 3] = [0, 1, 4];

/// A type of elements, with its only operation.
struct Type {
    name: &'static str,
    /// Bytes from one element of an array to the next.
    extent: usize,
    /// The places of its values, and their bytes.
    parts: &'static [(usize, usize)],
    /// Changes an element's packed values. The operation commutes.
    combine: fn(&mut [u8], &[u8]),
}

const TYPES: &[Type] = &[
    Type {
        name: "product-of-complex",
        extent: 16,
        parts: &[(0, 16)],
        combine: multiply,
    },
    Type {
        name: "sum-of-complex-32",
        extent: 32,
        parts: &[(0, 32)],
        combine: add,
    },
    Type {
        name: "largest-long-int",
        extent: 16,
        parts: &[(0, 12)],
        combine: |a, b| largest::<8>(a, b),
    },
    Type {
        name: "largest-int-int",
        extent: 8,
        parts: &[(0, 8)],
        combine: |a, b| largest::<4>(a, b),
    },
    Type {
        name: "largest-short-int",
        extent: 8,
        parts: &[(0, 2), (4, 4)],
        combine: |a, b| largest::<2>(a, b),
    },
];

fn numbers<const N: usize>(bytes: &[u8]) -> [u128; N] {
    let size = bytes.len() / N;
    std::array::from_fn(|at| {
        let mut number = [0; 16];
        number[..size].copy_from_slice(&bytes[at * size..][..size]);
        u128::from_le_bytes(number)
    })
}

/// A product of numbers whose parts are integers that wrap.
fn multiply(element: &mut [u8], operand: &[u8]) {
    let ([a, b], [c, d]) = (numbers(element), numbers(operand));
    let real = a.wrapping_mul(c).wrapping_sub(b.wrapping_mul(d));
    let imaginary = a.wrapping_mul(d).wrapping_add(b.wrapping_mul(c));
    element[..8].copy_from_slice(&real.to_le_bytes()[..8]);
    element[8..].copy_from_slice(&imaginary.to_le_bytes()[..8]);
}

fn add(element: &mut [u8], operand: &[u8]) {
    let (a, b): ([u128; 2], [u128; 2]) = (numbers(element), numbers(operand));
    element[..16].copy_from_slice(&a[0].wrapping_add(b[0]).to_le_bytes());
    element[16..].copy_from_slice(&a[1].wrapping_add(b[1]).to_le_bytes());
}

/// The larger value, with its place; for equal values the lower place.
fn largest<const VALUE: usize>(element: &mut [u8], operand: &[u8]) {
    let of = |bytes: &[u8]| {
        let ([value], [place]) = (numbers::<1>(&bytes[..VALUE]), numbers::<1>(&bytes[VALUE..]));
        (value, u128::MAX - place)
    };
    if of(operand) > of(element) {
        element.copy_from_slice(operand);
    }
}

/// The function of this program: a code is the index of a type.
///
/// # Safety
/// There are `count` elements of `size` bytes, and as many operands.
pub(super) unsafe fn combine(
    code: u32,
    size: usize,
    elements: *mut u8,
    operands: *const u8,
    count: usize,
) -> Status {
    let Some(kind) = TYPES.get(code as usize).filter(|kind| kind.size() == size) else {
        return Status::NOT_SUPPORTED;
    };
    // SAFETY: the caller guarantees `count` elements of `size` bytes.
    let (elements, operands) = unsafe {
        (
            slice::from_raw_parts_mut(elements, size * count),
            slice::from_raw_parts(operands, size * count),
        )
    };
    for (element, operand) in elements
        .chunks_exact_mut(size)
        .zip(operands.chunks_exact(size))
    {
        (kind.combine)(element, operand);
    }
    Status::SUCCESS
}

impl Type {
    fn size(&self) -> usize {
        self.parts.iter().map(|part| part.1).sum()
    }

    fn custom(&'static self, op: Step) -> Custom {
        let code = TYPES.iter().position(|kind| std::ptr::eq(kind, self));
        Custom {
            size: self.size(),
            op: match op {
                Step::Combine => CustomOp::Combine(code.map_or(u32::MAX, |code| code as u32)),
                Step::Replace => CustomOp::Replace,
                Step::Fetch => CustomOp::NoOp,
            },
        }
    }

    /// The bytes of elements at these places of an array.
    fn placed(&self, places: &[usize]) -> WinResult<Placed> {
        let parts = places.iter().flat_map(|place| {
            let at = place * self.extent;
            self.parts
                .iter()
                .map(move |(offset, len)| (at + offset, *len))
        });
        let blocks: Vec<Block> = parts
            .clone()
            .map(|(displacement, length)| Block {
                displacement,
                length,
            })
            .collect();
        Ok(Placed {
            layout: Layout::indexed(Datatype::Uint8, &blocks)?,
            places: parts.flat_map(|(at, len)| at..at + len).collect(),
        })
    }

    fn random(&self, count: usize, random: &mut Random) -> Result<Placed, Failure> {
        let shape = random.pick(&Shape::ALL);
        let elements = Placed::new(shape, Datatype::Uint8, count, random)?;
        Ok(self.placed(&elements.places)?)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Combine,
    Replace,
    Fetch,
}

/// One accumulate, as every rank can compute it.
struct Plan {
    step: Step,
    fetches: bool,
    target: usize,
    displacement: usize,
    origin: Placed,
    result: Placed,
    remote: Placed,
    data: Vec<u8>,
}

impl Plan {
    fn new(
        kind: &Type,
        (step, fetches): (Step, bool),
        (target, displacement): (usize, usize),
        random: &mut Random,
    ) -> Result<Plan, Failure> {
        let (origin, result) = (kind.random(COUNT, random)?, kind.random(COUNT, random)?);
        let remote = kind.random(COUNT, random)?;
        let data = random.bytes(origin.layout.extent());
        Ok(Plan {
            step,
            fetches: fetches || step == Step::Fetch,
            target,
            displacement,
            origin,
            result,
            remote,
            data,
        })
    }

    /// Changes a model of the target's memory. Returns the expected result buffer.
    fn model(&self, kind: &Type, memory: &mut [u8]) -> Vec<u8> {
        let mut fetched = vec![0xee; self.result.layout.extent()];
        let size = kind.size();
        let elements = self.remote.places.chunks(size);
        let others = self
            .origin
            .places
            .chunks(size)
            .zip(self.result.places.chunks(size));
        for (at, (from, into)) in elements.zip(others) {
            let at = || at.iter().map(|place| place + self.displacement);
            let mut element: Vec<u8> = at().map(|place| memory[place]).collect();
            let operand: Vec<u8> = from.iter().map(|place| self.data[*place]).collect();
            for (place, byte) in into.iter().zip(&element) {
                fetched[*place] = *byte;
            }
            match self.step {
                Step::Combine => (kind.combine)(&mut element, &operand),
                Step::Replace => element = operand,
                Step::Fetch => {}
            }
            for (place, byte) in at().zip(element) {
                memory[place] = byte;
            }
        }
        fetched
    }
}

/// The tests of this file.
pub(super) fn cases() -> Vec<Case> {
    let on_host = |context: &Context<'_>, run: &dyn Fn() -> Outcome| match context.on_device {
        true => say(context, "its buffers are memory of the host"),
        false => run(),
    };
    let mut cases = Vec::new();
    for kind in TYPES {
        for first in FIRST {
            let case = |name: &str, run: fn(&Context<'_>, &'static Type, usize) -> Outcome| {
                let name = format!("custom/{name}/{}/{first}", kind.name);
                Case::new(name, move |context| {
                    on_host(context, &|| run(context, kind, first))
                })
            };
            cases.push(case("own", own_regions));
            cases.push(case("concurrent", common_region));
            cases.push(case("large", large));
        }
    }
    cases.push(Case::new("custom/errors", move |context| {
        on_host(context, &|| errors(context))
    }));
    cases
}

/// Every origin changes its own elements several times: results and order are exact.
fn own_regions(context: &Context<'_>, kind: &'static Type, first: usize) -> Outcome {
    let window = context.window;
    let steps = [
        Step::Combine,
        Step::Replace,
        Step::Combine,
        Step::Fetch,
        Step::Combine,
    ];
    let plans = |rank: usize| -> Result<Vec<Plan>, Failure> {
        let mut random = context.of_rank(rank);
        let mut plans = Vec::new();
        for target in context.targets(rank) {
            for step in steps {
                let (fetches, place) = (random.below(2) == 1, context.region(rank) + first);
                plans.push(Plan::new(
                    kind,
                    (step, fetches),
                    (target, place),
                    &mut random,
                )?);
            }
        }
        Ok(plans)
    };
    let mut wanted = context.fill(window)?;
    let mut session = Session::open(context, window, context.common().pick(&Mode::ALL))?;
    let mut results = Vec::new();
    for plan in plans(context.rank)? {
        results.push(issue(&mut session, kind, &plan)?);
    }
    session.close()?;
    let mut remote: Vec<Vec<u8>> = (0..context.size)
        .map(|rank| context.initial(rank, window.len()))
        .collect();
    for (plan, result) in plans(context.rank)?.into_iter().zip(results) {
        let fetched = plan.model(kind, &mut remote[plan.target]);
        if plan.fetches {
            let what = format!("fetched by {:?}", plan.step);
            same(&what, &session.bytes(result)?, &fetched)?;
        }
    }
    for rank in 0..context.size {
        for plan in plans(rank)? {
            if plan.target == context.rank {
                plan.model(kind, &mut wanted);
            }
        }
    }
    context.verify(window, &wanted)
}

fn issue(
    session: &mut Session<'_>,
    kind: &'static Type,
    plan: &Plan,
) -> Result<super::session::Buffer, Failure> {
    let from = session.buffer(&plan.data);
    let into = session.buffer(&vec![0xee; plan.result.layout.extent()]);
    let target = plan.remote.at(plan.target, plan.displacement as u64);
    let result = plan.fetches.then_some((into, &plan.result));
    session.accumulate_custom(kind.custom(plan.step), (from, &plan.origin), result, target)?;
    Ok(into)
}

/// All origins change the same elements at once.
fn common_region(context: &Context<'_>, kind: &'static Type, first: usize) -> Outcome {
    let window = context.window;
    let plans = |rank: usize| -> Result<Vec<Plan>, Failure> {
        let mut random = context.of_rank(rank);
        let mut plans = Vec::new();
        for target in context.targets(rank) {
            for _ in 0..3 {
                let how = (Step::Combine, random.below(2) == 1);
                plans.push(Plan::new(kind, how, (target, first), &mut random)?);
            }
        }
        Ok(plans)
    };
    let mut wanted = context.fill(window)?;
    let mut session = Session::open(context, window, context.common().pick(&Mode::ALL))?;
    for plan in plans(context.rank)? {
        issue(&mut session, kind, &plan)?;
    }
    session.close()?;
    for rank in 0..context.size {
        for plan in plans(rank)? {
            if plan.target == context.rank {
                plan.model(kind, &mut wanted);
            }
        }
    }
    context.verify(window, &wanted)
}

/// Calls larger than one command, several at once, by all origins.
fn large(context: &Context<'_>, kind: &'static Type, first: usize) -> Outcome {
    const LARGE: usize = 2400;
    let window = context.allocate(first + LARGE * SPREAD * kind.extent, 1)?;
    let mut wanted = context.fill(&window)?;
    let mut random = context.common();
    let remote = kind.random(LARGE, &mut random)?;
    let row = kind.placed(&(0..LARGE).collect::<Vec<usize>>())?;
    let plan = |rank: usize| Plan {
        step: Step::Combine,
        fetches: false,
        target: 0,
        displacement: first,
        data: context.of_rank(rank).bytes(row.layout.extent()),
        origin: row.clone(),
        result: row.clone(),
        remote: remote.clone(),
    };
    let mut session = Session::open(context, &window, Mode::LockAll)?;
    issue(&mut session, kind, &plan(context.rank))?;
    session.close()?;
    drop(session);
    if context.rank == 0 {
        for rank in 0..context.size {
            plan(rank).model(kind, &mut wanted);
        }
    }
    context.verify(&window, &wanted)?;
    Ok(window.free()?)
}

/// The host refuses a wrong request at once. A request for a type or operation unknown to the
/// target fails in the flush at the latest.
fn errors(context: &Context<'_>) -> Outcome {
    let window = context.allocate(64, 1)?;
    let wanted = context.fill(&window)?;
    context.meet()?;
    let target = context.next();
    window.lock(LockKind::Shared, target, Assertion::empty())?;
    let accumulate = |window: &Window, size: usize, op: CustomOp, bytes: usize| {
        let layout = Layout::contiguous(Datatype::Uint8, bytes);
        let place = layout.at(target, 0);
        let operands = [7u128; 4];
        let origin = (operands.as_ptr().cast(), &layout);
        let custom = Custom { size, op };
        // SAFETY: the operands have the layout's length, and live until the flush.
        unsafe {
            let issued = window.accumulate_custom(custom, origin, None, place);
            issued.and(window.flush(target))
        }
    };
    let known = CustomOp::Combine(0);
    for (size, op, bytes) in [
        (0, known, 16),
        (65, known, 65),
        (16, known, 24),
        (16, CustomOp::Combine(1 << 31), 16),
    ] {
        let refused = accumulate(&window, size, op, bytes);
        let is_bad = matches!(unboxed(&refused), Err(WinError::BadArgument { .. }));
        ensure(is_bad, || {
            format!("elements of {size}, {op:?}, {bytes} B: {refused:?}")
        })?;
    }
    let fetches_nothing = accumulate(&window, 16, CustomOp::NoOp, 16);
    let is_invalid = matches!(
        unboxed(&fetches_nothing),
        Err(WinError::InvalidOperation { .. })
    );
    ensure(is_invalid, || format!("nothing: {fetches_nothing:?}"))?;
    for (size, code) in [(16, TYPES.len() as u32), (8, 0), (16, 3)] {
        let refused = accumulate(&window, size, CustomOp::Combine(code), 16);
        let status = match unboxed(&refused) {
            Err(WinError::Transport { status, .. }) => Some(*status),
            _ => None,
        };
        ensure(status == Some(Status::NOT_SUPPORTED), || {
            format!("code {code} of {size} B: {refused:?}")
        })?;
    }
    window.unlock(target)?;
    context.meet()?;
    context.verify(&window, &wanted)?;
    Ok(window.free()?)
}
