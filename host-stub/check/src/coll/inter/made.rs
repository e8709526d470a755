//! How intercommunicators are made, what they say of themselves, and what is refused.

use plugin_api::Datatype;

use super::super::super::case::{Case, Context, Outcome, ensure};
use super::groups::{Groups, Pairing};
use host_stub::coll::{BlockList, PROC_NULL, ROOT};
use host_stub::comm::{Comm, CommError, CommResult};
use host_stub::win::{Op, Window};

/// The tests of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("coll/inter/made", made),
        Case::new("coll/inter/strangers", strangers),
        Case::new("coll/inter/overlap", overlap),
        Case::new("coll/inter/arguments", arguments),
    ]
}

/// Sizes, groups, copies, and both orders of a merge.
fn made(context: &Context<'_>) -> Outcome {
    let mut random = context.common();
    for groups in Groups::several(context.size, &mut random) {
        if let Some(pairing) = groups.connect(context)? {
            let copy = pairing.comm.dup()?;
            for comm in [&pairing.comm, &copy] {
                queried(&pairing, comm)?;
                merged(&pairing, comm)?;
            }
            copy.free()?;
            pairing.free()?;
        }
    }
    Ok(())
}

/// As job ranks.
fn job_ranks(ranks: &[usize]) -> Vec<u32> {
    ranks.iter().map(|rank| *rank as u32).collect()
}

fn queried(pairing: &Pairing, comm: &Comm) -> Outcome {
    let (mine, theirs) = (
        &pairing.members[pairing.side],
        &pairing.members[1 - pairing.side],
    );
    ensure(comm.is_inter() && !pairing.local.is_inter(), || {
        format!(
            "{comm:?} is no intercommunicator, or {:?} is one",
            pairing.local
        )
    })?;
    let sizes = (comm.size(), comm.remote_size(), comm.rank());
    let wanted = (mine.len(), theirs.len(), pairing.local.rank());
    ensure(sizes == wanted, || format!("{sizes:?}, wanted {wanted:?}"))?;
    let remote = comm.remote_group().map(|group| group.job_ranks().to_vec());
    ensure(
        remote == Some(job_ranks(theirs)) && comm.group().job_ranks() == job_ranks(mine),
        || {
            format!(
                "{:?} and {remote:?} of {mine:?} and {theirs:?}",
                comm.group()
            )
        },
    )?;
    ensure(comm.context() != pairing.local.context(), || {
        "its context is that of the group".to_owned()
    })
}

fn merged(pairing: &Pairing, comm: &Comm) -> Outcome {
    let [first, second] = &pairing.members;
    let by_job_rank = match first[0] < second[0] {
        true => [first.as_slice(), second].concat(),
        false => [second.as_slice(), first].concat(),
    };
    let orders = [
        ([false, true], [first.as_slice(), second].concat()),
        ([true, false], [second.as_slice(), first].concat()),
        ([false, false], by_job_rank.clone()),
        ([true, true], by_job_rank),
    ];
    for (high, wanted) in orders {
        let merged = comm.merge(high[pairing.side])?;
        ensure(
            !merged.is_inter() && merged.group().job_ranks() == job_ranks(&wanted),
            || format!("{high:?} gave {merged:?}, wanted {wanted:?}"),
        )?;
        merged.barrier()?;
        merged.free()?;
    }
    // One rank says otherwise than its group; both groups hear of it.
    let alone = pairing.side == 0 && comm.rank() + 1 == first.len();
    match first.len() {
        1 => Ok(comm.merge(alone)?.free()?),
        _ => told(
            "says that its group comes last",
            comm.merge(alone).map(drop),
        ),
    }
}

fn told(wanted: &str, outcome: CommResult<()>) -> Outcome {
    let is_told = match &outcome {
        Err(error @ (CommError::Creation { .. } | CommError::BadArgument { .. })) => {
            error.to_string().contains(wanted)
        }
        _ => false,
    };
    ensure(is_told, || format!("wanted {wanted:?}: {outcome:?}"))
}

/// Leaders that cannot find each other: every rank of both groups is told why, and the next try works.
fn strangers(context: &Context<'_>) -> Outcome {
    if context.size < 2 {
        return Ok(());
    }
    let world = Comm::world(context.job)?;
    let (rank, size) = (context.rank, context.size);
    let Some(half) = world.split(Some(rank as u32 % 2), 0)? else {
        return Ok(());
    };
    let other = 1 - rank % 2;
    let leads = half.rank() == 0;
    let make = |leader: usize, peer: Option<(&Comm, usize)>, tag: u32| {
        half.intercommunicator(leader, peer.filter(|_| half.rank() == leader), tag)
    };
    let good = Some((&world, other));
    let outcomes = [
        ("no leader 99 in a group", make(99, good, 0)),
        ("gives no peer communicator", make(0, None, 0)),
        ("no remote leader", make(0, Some((&world, size)), 0)),
        ("in its own group", make(0, Some((&world, rank % 2)), 0)),
        ("more than 24 bits", make(0, good, 1 << 24)),
    ];
    for (wanted, outcome) in outcomes {
        told(wanted, outcome.map(drop))?;
    }
    // A rank of the first group names another leader, when the leaders have met: the second group is told too.
    let wrong = rank.is_multiple_of(2) && !leads && half.rank() + 1 == half.size();
    let outcome = make(if wrong { 99 } else { 0 }, good, 0);
    if size > 2 {
        told("names rank 99 as leader", outcome.map(drop))?;
    } else {
        outcome?.free()?;
    }
    let comm = make(0, good, 0)?;
    let mistakes = [
        (
            "it is an intercommunicator",
            comm.split(Some(0), 0).map(drop),
        ),
        (
            "it is an intercommunicator",
            comm.create(&comm.group()).map(drop),
        ),
        (
            "it is an intercommunicator",
            comm.create_from_group(&comm.group(), 0).map(drop),
        ),
        (
            "it is an intercommunicator",
            comm.cartesian(&[1], &[false], false).map(drop),
        ),
        (
            "it is an intercommunicator",
            comm.intercommunicator(0, good, 0).map(drop),
        ),
        ("it is no intercommunicator", half.merge(false).map(drop)),
        (
            "its peer communicator is of no use",
            half.intercommunicator(0, leads.then_some((&comm, 0)), 0)
                .map(drop),
        ),
    ];
    for (wanted, outcome) in mistakes {
        told(wanted, outcome)?;
    }
    let window = Window::allocate(&comm, 8, 1).map(drop);
    ensure(
        matches!(&window, Err(error) if error.to_string().contains("it is an intercommunicator")),
        || format!("a window over it: {window:?}"),
    )?;
    comm.barrier()?;
    comm.free()?;
    Ok(half.free()?)
}

/// A process in both groups, which calls for one after the other.
fn overlap(context: &Context<'_>) -> Outcome {
    if context.size < 3 {
        return Ok(());
    }
    let world = Comm::world(context.job)?;
    let last = context.size - 1;
    let low = world.split((context.rank <= 1).then_some(0), 0)?;
    let high = world.split((context.rank >= 1).then_some(0), 0)?;
    if let Some(low) = &low {
        let outcome = low.intercommunicator(0, Some((&world, last)), 5);
        told("job rank 1 is in both groups", outcome.map(drop))?;
    }
    if let Some(high) = &high {
        let outcome = high.intercommunicator(last - 1, Some((&world, 0)), 5);
        told("job rank 1 is in both groups", outcome.map(drop))?;
    }
    for comm in low.into_iter().chain(high) {
        comm.barrier()?;
        comm.free()?;
    }
    Ok(())
}

/// Calls that cannot be are refused before anything is sent.
fn arguments(context: &Context<'_>) -> Outcome {
    let mut random = context.common();
    let mut bytes = [0u8; 64];
    let (at, null, int8) = (bytes.as_mut_ptr(), std::ptr::null_mut(), Datatype::Int8);
    for groups in Groups::several(context.size, &mut random) {
        let Some(pairing) = groups.connect(context)? else {
            continue;
        };
        let (comm, local) = (&pairing.comm, &pairing.local);
        let (size, remote) = (comm.size(), comm.remote_size());
        let blocks = |counts, displacements| BlockList {
            counts,
            displacements,
            types: &[],
        };
        let many = vec![0; remote + 1];
        let counts = vec![1; size + 1];
        let huge = usize::MAX / 2;
        // SAFETY: every call is refused before it touches a buffer.
        let outcomes = unsafe {
            [
                ("not defined", comm.scan(at, at, 1, int8, Op::Sum)),
                ("not defined", comm.exscan(at, at, 1, int8, Op::Sum)),
                (
                    "without a topology",
                    comm.neighbor_alltoall(at, at, 1, int8),
                ),
                ("in the other group", comm.bcast(at, 1, int8, remote)),
                (
                    "in the other group",
                    comm.gather(at, at, 1, int8, remote + 7),
                ),
                ("for intercommunicators", local.bcast(at, 1, int8, ROOT)),
                (
                    "for intercommunicators",
                    local.bcast(at, 1, int8, PROC_NULL),
                ),
                (
                    "send buffer is at",
                    comm.allreduce(null, at, 1, int8, Op::Sum),
                ),
                ("receive buffer is at", comm.alltoall(at, null, 1, int8)),
                ("receive buffer is at", comm.bcast(null, 1, int8, ROOT)),
                ("send buffer is at", comm.scatter(null, at, 1, int8, ROOT)),
                ("send buffer is at", comm.gather(null, at, 1, int8, 0)),
                (
                    "no buffer has",
                    comm.allgather(at, at, huge, Datatype::Int64),
                ),
                (
                    "counts for",
                    comm.reduce_scatter(at, at, &counts, int8, Op::Sum),
                ),
                (
                    "receive counts for",
                    comm.allgatherv(at, 1, at, blocks(&many, &many), int8),
                ),
                (
                    "send counts for",
                    comm.scatterv(at, blocks(&many, &many), at, 1, int8, ROOT),
                ),
                (
                    "send types for",
                    comm.alltoallw(
                        at,
                        blocks(&many[1..], &many[1..]),
                        at,
                        blocks(&many[1..], &many[1..]),
                    ),
                ),
            ]
        };
        for (wanted, outcome) in outcomes {
            told(wanted, outcome)?;
        }
        // Without a part in it the arguments mean nothing.
        // SAFETY: no rank gives or takes anything: both groups say that the root is in theirs.
        unsafe { comm.reduce(null, null, 9, int8, Op::Sum, PROC_NULL) }?;
        comm.barrier()?;
        pairing.free()?;
    }
    Ok(())
}
