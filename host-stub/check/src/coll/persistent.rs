//! Persistent collectives that are started many times, in another order at each rank.

use plugin_api::Datatype;

use super::super::case::{Case, Context, Outcome, ensure};
use host_stub::coll::{CollArgs, Collective, Persistent};
use host_stub::comm::{Comm, CommError};
use host_stub::win::Op;

/// Persistent collectives at a time.
const TOGETHER: usize = 7;
/// How often each is started.
const ROUNDS: u64 = 40;

/// The tests of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("coll/persistent/any-order", any_order),
        Case::new("coll/persistent/misuse", misuse),
    ]
}

/// A sum of so many elements over all ranks.
struct Sum {
    // First, so that it ends before the buffers go.
    started: Persistent,
    from: Vec<u64>,
    into: Vec<u64>,
}

impl Sum {
    fn new(comm: &Comm, count: usize) -> Result<Sum, CommError> {
        let (from, mut into) = (vec![0u64; count], vec![0u64; count]);
        let args = CollArgs {
            send: from.as_ptr().cast(),
            recv: into.as_mut_ptr().cast(),
            count,
            datatype: Datatype::Uint64.into(),
            op: Op::Sum.into(),
            ..CollArgs::default()
        };
        // SAFETY: both stay where they are until `started` was dropped, and are touched between a wait and a start only.
        let started = unsafe { comm.init_collective(Collective::Allreduce, &args) }?;
        Ok(Sum {
            started,
            from,
            into,
        })
    }

    fn value(index: usize, round: u64, rank: usize) -> u64 {
        (index as u64 + 1) * 1000 + round * 7 + rank as u64
    }
}

fn any_order(context: &Context<'_>) -> Outcome {
    let comm = Comm::world(context.job)?.dup()?;
    let (rank, size) = (comm.rank(), comm.size());
    let mut own = context.of_rank(rank);
    let counts = [1, 2, 100, 500, 3000, 20_000, 1];
    let sums = counts.iter().map(|count| Sum::new(&comm, *count));
    let mut sums = sums.collect::<Result<Vec<_>, _>>()?;
    let mut order: Vec<usize> = (0..TOGETHER).collect();
    for round in 0..ROUNDS {
        own.shuffle(&mut order);
        for &index in &order {
            let sum = &mut sums[index];
            sum.from.fill(Sum::value(index, round, rank));
            sum.started.start()?;
        }
        // Others between them.
        comm.barrier()?;
        own.shuffle(&mut order);
        for &index in &order {
            let sum = &mut sums[index];
            if index % 2 == 0 {
                while !sum.started.test()? {}
            }
            sum.started.wait()?;
            let wanted: u64 = (0..size).map(|rank| Sum::value(index, round, rank)).sum();
            let found = sum.into.iter().find(|found| **found != wanted);
            ensure(found.is_none(), || {
                format!("sum {index} of round {round} is {found:?}, wanted {wanted}")
            })?;
        }
    }
    drop(sums);
    Ok(comm.free()?)
}

fn misuse(context: &Context<'_>) -> Outcome {
    let comm = Comm::world(context.job)?.dup()?;
    // One that was made and never started, here or elsewhere.
    let idle = Sum::new(&comm, 3)?;
    let mut sum = Sum::new(&comm, 3)?;
    sum.started.wait()?;
    sum.started.start()?;
    let again = sum.started.start();
    ensure(
        matches!(&again, Err(CommError::BadArgument { reason, .. }) if reason.contains("under way")),
        || format!("a second start gave {again:?}"),
    )?;
    sum.started.wait()?;
    drop(idle);
    // Started, and dropped: that waits.
    sum.started.start()?;
    drop(sum);
    // Refused at one rank only: the next is the same one at all.
    let args = CollArgs {
        root: if comm.rank() == 0 { comm.size() } else { 0 },
        ..CollArgs::default()
    };
    // SAFETY: there are no elements.
    let made = unsafe { comm.init_collective(Collective::Bcast, &args) };
    let wrong = matches!(made, Err(CommError::BadArgument { .. }));
    ensure(wrong == (comm.rank() == 0), || {
        format!("root {} gave {made:?}", args.root)
    })?;
    drop(made);
    let mut last = Sum::new(&comm, 1)?;
    last.started.start()?;
    last.started.wait()?;
    let made = last;
    comm.free()?;
    let Sum { mut started, .. } = made;
    let after = started.start();
    ensure(matches!(after, Err(CommError::Freed { .. })), || {
        format!("a start on a freed communicator: {after:?}")
    })
}
