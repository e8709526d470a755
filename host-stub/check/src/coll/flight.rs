//! Several collectives at once, and the end of communicators with some under way.

use plugin_api::Datatype;

use super::super::case::{Case, Context, Outcome, ensure, same};
use super::super::random::Random;
use super::model::Call;
use super::ops::operations;
use super::run::{Form, Running};
use super::shapes::Shapes;
use host_stub::coll::{BlockList, Collective};
use host_stub::comm::{Comm, CommError};
use host_stub::win::Op;

const ROUNDS: usize = 12;
const TOGETHER: usize = 10;

/// The tests of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("coll/several/one-communicator", one_communicator),
        Case::new("coll/several/many-communicators", many_communicators),
        Case::new("coll/several/far-ahead", far_ahead),
        Case::new("coll/allreduce/same-bits", same_bits),
        Case::new("coll/barrier/holds", barrier_holds),
        Case::new("coll/free/waits", free_waits),
        Case::new("coll/errors/arguments", arguments),
    ]
}

pub(super) fn any_call(random: &mut Random, size: usize) -> Call {
    let collective = random.pick(&Collective::ALL);
    let datatype = random.pick(Datatype::ALL);
    Call {
        collective,
        count: random.pick(&[0, 1, 5, 60, 400, 3000, 30_000]),
        root: random.below(size),
        datatype,
        op: random.pick(&operations(collective, datatype)),
        in_place: random.below(3) == 0,
        uneven: random.below(2) == 0,
    }
}

/// An in-place reduce_scatter leaves unspecified bytes, which only blocking tests can skip.
fn comparable(mut call: Call) -> Call {
    call.in_place &= call.collective != Collective::ReduceScatter;
    call
}

/// Many collectives at once on one communicator, with blocking ones in between; each rank ends them
/// in another order.
fn one_communicator(context: &Context<'_>) -> Outcome {
    let comm = Comm::world(context.job)?.dup()?;
    let mut common = context.common();
    let mut own = context.of_rank(context.rank);
    for round in 0..ROUNDS {
        let mut running = Vec::new();
        for index in 0..TOGETHER {
            let call = comparable(any_call(&mut common, comm.size()));
            let stream = common.fork((round * TOGETHER + index) as u64);
            let form = common.pick(&[Form::Nonblocking, Form::Nonblocking, Form::Blocking]);
            running.push(Running::start(&comm, &call, form, &stream)?);
        }
        own.shuffle(&mut running);
        for one in &mut running {
            one.test()?;
        }
        for one in running {
            one.finish()?;
        }
    }
    Ok(comm.free()?)
}

/// Some collectives on each of several communicators that share ranks.
fn many_communicators(context: &Context<'_>) -> Outcome {
    let shapes = Shapes::make(context)?;
    let mut own = context.of_rank(context.rank);
    for round in 0..ROUNDS {
        let mut running = Vec::new();
        for (shape, comm) in shapes.mine().iter().enumerate() {
            // Ranks of one communicator draw the same numbers: the salt has its size and members.
            let mut salt = shape as u64;
            for rank in 0..comm.size() {
                let member = u64::from(comm.job_rank(rank)?);
                salt = salt.wrapping_mul(131).wrapping_add(member + 1);
            }
            let mut random = Random::new(context.seed, context.name, salt << 8 | round as u64);
            for index in 0..3 {
                let call = comparable(any_call(&mut random, comm.size()));
                let stream = random.fork(index);
                running.push(Running::start(comm, &call, Form::Nonblocking, &stream)?);
            }
        }
        own.shuffle(&mut running);
        for one in running {
            one.finish()?;
        }
    }
    shapes.free()
}

/// A root far ahead of the others: more broadcasts than any ring has room for.
fn far_ahead(context: &Context<'_>) -> Outcome {
    let comm = Comm::world(context.job)?.dup()?;
    let mut common = context.common();
    for root in 0..comm.size() {
        let calls: Vec<(Call, Random)> = (0..100)
            .map(|index| {
                let call = Call {
                    collective: Collective::Bcast,
                    count: common.pick(&[1, 300, 20_000]),
                    root,
                    datatype: Datatype::Uint8,
                    op: Op::Sum,
                    in_place: false,
                    uneven: false,
                };
                let stream = common.fork(index);
                (call, stream)
            })
            .collect();
        let mut running = Vec::new();
        for (call, stream) in &calls {
            // All calls are nonblocking, because a blocking call matches blocking calls only.
            let one = Running::start(&comm, call, Form::Nonblocking, stream)?;
            if comm.rank() == root {
                running.push(one);
            } else {
                one.finish()?;
            }
        }
        for one in running {
            one.finish()?;
        }
    }
    Ok(comm.free()?)
}

/// All ranks get the same bits of an allreduce, also if the bits depend on the order of the operands: for zeroes with a sign,
/// and for NaNs.
fn same_bits(context: &Context<'_>) -> Outcome {
    let shapes = Shapes::make(context)?;
    let mut random = context.of_rank(context.rank);
    for comm in shapes.mine() {
        for (count, op) in [
            (1, Op::Min),
            (40, Op::Max),
            (5000, Op::Min),
            (5000, Op::Max),
        ] {
            let operand: Vec<f64> = (0..count)
                .map(|_| random.pick(&[0.0, -0.0, f64::NAN]))
                .collect();
            let mut result = vec![0.0_f64; count];
            let (send, recv) = (operand.as_ptr().cast(), result.as_mut_ptr().cast());
            // SAFETY: both buffers have `count` elements.
            unsafe { comm.allreduce(send, recv, count, Datatype::Double, op) }?;
            let bytes: Vec<u8> = result
                .iter()
                .flat_map(|value| value.to_ne_bytes())
                .collect();
            for (rank, other) in comm.exchange(&bytes)?.into_iter().enumerate() {
                same(&format!("{op} of {count}, rank {rank}"), &other, &bytes)?;
            }
        }
    }
    shapes.free()
}

/// No rank leaves a barrier before all ranks have entered it: each rank in turn comes late.
fn barrier_holds(context: &Context<'_>) -> Outcome {
    let comm = Comm::world(context.job)?.dup()?;
    let window = host_stub::win::Window::allocate(&comm, 8, 8)?;
    let one = host_stub::win::Layout::contiguous(Datatype::Uint64, 1);
    for late in 0..comm.size() as u64 * 2 {
        let (rank, nonblocking) = (late as usize % comm.size(), late as usize >= comm.size());
        window.lock_all(host_stub::win::Assertion::empty())?;
        if rank == comm.rank() {
            std::thread::sleep(std::time::Duration::from_millis(10));
            for target in 0..comm.size() {
                let value = late + 1;
                let target = one.at(target, 0);
                // SAFETY: the value lives until the flush.
                unsafe { window.put((&raw const value).cast(), &one, target) }?;
                window.flush_all()?;
            }
        }
        window.unlock_all()?;
        if nonblocking {
            let mut request = comm.ibarrier()?;
            while !request.test()? {
                std::hint::spin_loop();
            }
        } else {
            comm.barrier()?;
        }
        let mut found = [0; 8];
        window.read_local(0, &mut found)?;
        let found = u64::from_ne_bytes(found);
        ensure(found == late + 1, || {
            format!(
                "left the barrier of late rank {rank} and found {found}, wanted {}",
                late + 1
            )
        })?;
        comm.exchange(&[])?;
    }
    window.free()?;
    Ok(comm.free()?)
}

/// Freeing with collectives under way waits for them.
fn free_waits(context: &Context<'_>) -> Outcome {
    for _ in 0..10 {
        let comm = Comm::world(context.job)?.dup()?;
        let mut common = context.common();
        let mut running = Vec::new();
        for index in 0..4 {
            let call = comparable(any_call(&mut common, comm.size()));
            let stream = common.fork(index);
            running.push(Running::start(&comm, &call, Form::Nonblocking, &stream)?);
        }
        let after = comm.clone();
        comm.free()?;
        for mut one in running {
            ensure(one.test()?, || {
                "a freed communicator had one under way".to_owned()
            })?;
            one.finish()?;
        }
        let refused = after.barrier();
        ensure(matches!(refused, Err(CommError::Freed { .. })), || {
            format!("a barrier on a freed communicator: {refused:?}")
        })?;
    }
    Ok(())
}

/// Invalid arguments are refused before anything is sent, so the communicator stays whole.
fn arguments(context: &Context<'_>) -> Outcome {
    let comm = Comm::world(context.job)?.dup()?;
    let size = comm.size();
    let mut bytes = [0u8; 64];
    let at = bytes.as_mut_ptr();
    let null = std::ptr::null_mut();
    // SAFETY: every call is refused before it accesses a buffer.
    let outcomes = unsafe {
        [
            comm.bcast(at, 1, Datatype::Int8, size),
            comm.bcast(null, 1, Datatype::Int8, 0),
            comm.bcast(at, usize::MAX / 4, Datatype::Int64, 0),
            comm.allreduce(at, at, 1, Datatype::Float, Op::Band),
            comm.allreduce(at, at, 1, Datatype::Int8, Op::Replace),
            comm.allreduce(at, null, 1, Datatype::Int8, Op::Sum),
            comm.reduce_scatter(at, at, &vec![1; size + 1], Datatype::Int8, Op::Sum),
            comm.gather(null, null, 1, Datatype::Int8, (comm.rank() + 1) % size)
                .and(if size == 1 {
                    comm.bcast(null, 1, Datatype::Int8, 0)
                } else {
                    Ok(())
                }),
        ]
    };
    for (index, outcome) in outcomes.into_iter().enumerate() {
        let refused = matches!(
            outcome,
            Err(CommError::BadArgument { .. } | CommError::InvalidOperation { .. })
        );
        ensure(refused, || format!("call {index}: {outcome:?}"))?;
    }
    listed_arguments(&comm, at)?;
    comm.barrier()?;
    Ok(comm.free()?)
}

/// Invalid lists of blocks.
fn listed_arguments(comm: &Comm, at: *mut u8) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    let (ones, zeroes, apart) = (vec![1; size], vec![0; size], (0..size).collect::<Vec<_>>());
    let mut long = zeroes.clone();
    long[size - 1] = usize::MAX;
    let blocks = |counts, displacements| BlockList {
        counts,
        displacements,
    };
    let (good, none) = (blocks(&ones, &apart), BlockList::default());
    let int8 = Datatype::Int8;
    // SAFETY: every call is refused before it accesses a buffer.
    let outcomes = unsafe {
        [
            (
                "receive counts for",
                comm.alltoallv(at, good, at, none, int8),
            ),
            ("send counts for", comm.alltoallv(at, none, at, good, int8)),
            (
                "would end behind all memory",
                comm.allgatherv(at, 1, at, blocks(&ones, &long), int8),
            ),
            (
                "would end behind all memory",
                comm.alltoallv(at, good, at, blocks(&long, &apart), Datatype::Int64),
            ),
            (
                "gives 7 elements itself",
                comm.allgatherv(at, 7, at, good, int8),
            ),
            (
                "takes 1 B of itself",
                comm.alltoallv(at, blocks(&zeroes, &apart), at, good, int8),
            ),
            (
                "send buffer is at the null address",
                comm.alltoallv(std::ptr::null(), good, at, good, int8),
            ),
            (
                "receive buffer is at the null address",
                comm.allgatherv(at, 1, std::ptr::null_mut(), good, int8),
            ),
        ]
    };
    let mut outcomes = Vec::from(outcomes);
    if size > 1 {
        // SAFETY: the call is refused before it accesses a buffer.
        let overlap = unsafe { comm.allgatherv(at, 1, at, blocks(&ones, &zeroes), int8) };
        outcomes.push(("overlap", overlap));
    }
    for (wanted, outcome) in outcomes {
        let refused = match &outcome {
            Err(error @ CommError::BadArgument { .. }) => error.to_string().contains(wanted),
            _ => false,
        };
        ensure(refused, || {
            format!("rank {rank} wanted {wanted:?}: {outcome:?}")
        })?;
    }
    Ok(())
}
