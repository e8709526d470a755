//! What communicators say of their topologies, and what is refused.

use plugin_api::Datatype;

use super::super::super::case::{Case, Context, Failure, Outcome, ensure};
use super::{Edges, shapes};
use host_stub::coll::BlockList;
use host_stub::comm::{Comm, CommError, balanced};

/// The tests of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("coll/topology/grids", grids),
        Case::new("coll/topology/errors", errors),
        Case::new("coll/neighbours/arguments", arguments),
    ]
}

/// What a communicator says of its grid is what the model says, and what is made of it keeps it or not.
fn grids(context: &Context<'_>) -> Outcome {
    let world = Comm::world(context.job)?;
    ensure(world.topology().is_none(), || {
        "the world has a topology".to_owned()
    })?;
    for (dims, periods) in shapes(world.size(), &mut context.common())? {
        let places: usize = dims.iter().product();
        let made = world.cartesian(&dims, &periods, false)?;
        ensure(made.is_some() == (context.rank < places), || {
            format!("rank {} of a grid of {dims:?}: {made:?}", context.rank)
        })?;
        let Some(comm) = made else { continue };
        let edges = Edges::of_grid(&dims, &periods);
        let copy = comm.dup()?;
        for comm in [&comm, &copy] {
            let topology = comm.topology().ok_or_else(|| Failure::new("no topology"))?;
            let sources: Vec<_> = edges.into[comm.rank()]
                .iter()
                .map(|end| end.map(|end| end.0))
                .collect();
            ensure(
                topology.sources() == sources && topology.destinations() == edges.out[comm.rank()],
                || format!("neighbours in a grid of {dims:?}, {periods:?}: {topology:?}"),
            )?;
            let grid = topology.grid().ok_or_else(|| Failure::new("no grid"))?;
            ensure(grid.dims() == dims && grid.periods() == periods, || {
                format!("{grid:?}")
            })?;
            let place = grid.coordinates(comm.rank())?;
            let there = place.iter().zip(&dims).zip(&periods);
            let around: Vec<i64> = there
                .map(|((at, dim), periodic)| {
                    *at as i64 - if *periodic { 3 * *dim as i64 } else { 0 }
                })
                .collect();
            ensure(grid.rank(&around)? == comm.rank(), || {
                format!("{around:?} in {grid:?}")
            })?;
        }
        let part = copy.split(Some(0), 0)?;
        ensure(
            part.as_ref().is_some_and(|part| part.topology().is_none()),
            || "a part of a grid has a topology".to_owned(),
        )?;
        for comm in part.into_iter().chain([copy, comm]) {
            comm.free()?;
        }
    }
    Ok(())
}

/// What no topology can be is told to all ranks, wherever it was asked for.
fn errors(context: &Context<'_>) -> Outcome {
    let world = Comm::world(context.job)?.dup()?;
    let (rank, size) = (world.rank(), world.size());
    let last = rank + 1 == size;
    let grid = |dims: &[usize], periods: &[bool]| world.cartesian(dims, periods, false).map(drop);
    let graph = |from: &[usize], to: &[usize]| world.graph_adjacent(from, to).map(drop);
    let mut outcomes = vec![
        ("more places", grid(&[size, 2], &[false; 2])),
        ("dimension 1 of the grid is 0", grid(&[1, 0], &[false; 2])),
        ("1 dimensions and 2 periods", grid(&[1], &[false; 2])),
        // One rank alone is wrong.
        (
            "more places",
            grid(&[if last { size + 1 } else { size }], &[true]),
        ),
        (
            "no rank",
            graph(&[], if last { &[usize::MAX] } else { &[] }),
        ),
        (
            "among its sources",
            graph(&[], if last { &[0] } else { &[] }),
        ),
        ("among its sources", graph(&[rank], &[rank, rank])),
    ];
    if size > 1 {
        outcomes.push((
            "are not those of rank 0",
            grid(&[1 + usize::from(last)], &[true]),
        ));
        let mixed = match last {
            true => graph(&[], &[]),
            false => grid(&[1], &[true]),
        };
        outcomes.push(("it wants a graph, rank 0 wants a grid", mixed));
    }
    for (wanted, outcome) in outcomes {
        let told = match &outcome {
            Err(error @ CommError::Creation { .. }) => error.to_string().contains(wanted),
            _ => false,
        };
        ensure(told, || {
            format!("rank {rank} wanted {wanted:?}: {outcome:?}")
        })?;
    }
    for (ranks, dims) in [
        (size, vec![size + 1]),
        (0, vec![0]),
        (size, vec![size + 1, 0]),
    ] {
        let found = balanced(ranks, &dims);
        ensure(matches!(found, Err(CommError::BadArgument { .. })), || {
            format!("{ranks} ranks in {dims:?}: {found:?}")
        })?;
    }
    world.barrier()?;
    Ok(world.free()?)
}

/// Arguments that cannot be are refused before anything is sent.
fn arguments(context: &Context<'_>) -> Outcome {
    let world = Comm::world(context.job)?.dup()?;
    let Some(ring) = world.cartesian(&[world.size(), 1], &[true, true], false)? else {
        return Err(Failure::new("no grid"));
    };
    let mut bytes = [0u8; 64];
    let (at, null, int8) = (bytes.as_mut_ptr(), std::ptr::null_mut(), Datatype::Int8);
    let blocks = |counts, displacements| BlockList {
        counts,
        displacements,
        types: &[],
    };
    let (good, few) = (blocks(&[1; 4], &[0, 1, 2, 3]), blocks(&[1; 2], &[0, 1]));
    // SAFETY: every call is refused before it touches a buffer.
    let outcomes = unsafe {
        [
            (
                "without a topology",
                world.neighbor_allgather(at, at, 1, int8),
            ),
            (
                "send buffer is at",
                ring.neighbor_allgather(null, at, 1, int8),
            ),
            (
                "receive buffer is at",
                ring.neighbor_alltoall(at, null, 1, int8),
            ),
            (
                "no buffer has",
                ring.neighbor_alltoall(at, at, usize::MAX / 2, int8),
            ),
            (
                "2 send counts for 4 blocks",
                ring.neighbor_alltoallv(at, few, at, good, int8),
            ),
            (
                "2 receive counts for 4 blocks",
                ring.neighbor_allgatherv(at, 1, at, few, int8),
            ),
            (
                "0 send types for 4 blocks",
                ring.neighbor_alltoallw(at, good, at, good),
            ),
            (
                "overlap",
                ring.neighbor_allgatherv(at, 1, at, blocks(&[1; 4], &[0, 1, 2, 2]), int8),
            ),
            (
                "in block 2 and takes 1 B of itself in block 3",
                ring.neighbor_alltoallv(at, blocks(&[1, 1, 2, 1], &[0; 4]), at, good, int8),
            ),
        ]
    };
    for (wanted, outcome) in outcomes {
        let refused = match &outcome {
            Err(error @ CommError::BadArgument { .. }) => error.to_string().contains(wanted),
            _ => false,
        };
        ensure(refused, || format!("wanted {wanted:?}: {outcome:?}"))?;
    }
    ring.barrier()?;
    ring.free()?;
    Ok(world.free()?)
}
