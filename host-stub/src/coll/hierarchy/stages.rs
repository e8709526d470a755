//! What each collective does in its stages.

use std::ptr::{null, null_mut};

use super::levels::{Levels, Stages};
use crate::coll::{BlockList, CollArgs, Collective};
use crate::comm::{Comm, CommError, CommResult};

/// The rank of the leader among the ranks of its node.
const LEADER: usize = 0;

/// Runs a collective that [`Levels::serves`].
///
/// # Safety
/// The arguments were checked, and their buffers are good for the collective.
pub(super) unsafe fn run(
    levels: &Levels,
    stages: &Stages,
    collective: Collective,
    args: &CollArgs<'_>,
) -> CommResult<()> {
    // SAFETY: the caller vouches for the arguments.
    unsafe {
        match collective {
            Collective::Barrier => barrier(stages),
            Collective::Bcast => bcast(levels, stages, args),
            Collective::Reduce => reduce(levels, stages, args),
            Collective::Allreduce => allreduce(stages, args),
            _ => allgather(levels, stages, args),
        }
    }
}

/// Memory for operands on their way. Blocks are as large as the program likes, so too large is an error.
fn memory(bytes: usize) -> CommResult<Vec<u8>> {
    let mut memory = Vec::new();
    memory
        .try_reserve_exact(bytes)
        .map_err(|_| CommError::BadArgument {
            call: "collective over nodes",
            reason: format!("no memory for an operand of {bytes} B"),
        })?;
    memory.resize(bytes, 0);
    Ok(memory)
}

fn barrier(stages: &Stages) -> CommResult<()> {
    stages.node.barrier()?;
    if let Some(leaders) = &stages.leaders {
        leaders.barrier()?;
    }
    stages.node.barrier()
}

/// # Safety
/// `args` are good for a broadcast over the ranks of `comm`.
unsafe fn bcast_from(comm: &Comm, args: &CollArgs<'_>, root: usize) -> CommResult<()> {
    let args = CollArgs {
        send: null(),
        root,
        ..*args
    };
    // SAFETY: the caller vouches for the buffer.
    unsafe { comm.collective(Collective::Bcast, &args) }
}

/// Within the root's node, between the leaders, within the other nodes.
///
/// # Safety
/// As for [`run`].
unsafe fn bcast(levels: &Levels, stages: &Stages, args: &CollArgs<'_>) -> CommResult<()> {
    let root = levels.map.places[args.root];
    let with_root = levels.here.node == root.node;
    // SAFETY: the buffer is the caller's at every stage.
    unsafe {
        if with_root {
            bcast_from(&stages.node, args, root.local)?;
        }
        if let Some(leaders) = &stages.leaders {
            bcast_from(leaders, args, root.node)?;
        }
        if with_root {
            return Ok(());
        }
        bcast_from(&stages.node, args, LEADER)
    }
}

/// The operands of a node, combined at its leader in `result`; elsewhere `result` is not touched.
///
/// # Safety
/// As for [`run`]; at the leader `result` is good for an operand.
unsafe fn combine(stages: &Stages, args: &CollArgs<'_>, result: *mut u8) -> CommResult<()> {
    let is_leader = stages.leaders.is_some();
    let given = if args.send.is_null() {
        args.recv.cast_const()
    } else {
        args.send
    };
    let in_place = is_leader && given == result.cast_const();
    let args = CollArgs {
        send: if in_place { null() } else { given },
        recv: if is_leader { result } else { null_mut() },
        root: LEADER,
        ..*args
    };
    // SAFETY: the caller vouches for both buffers.
    unsafe { stages.node.collective(Collective::Reduce, &args) }
}

/// Within the nodes, between the leaders, and from the leader of the root's node to the root.
///
/// # Safety
/// As for [`run`].
unsafe fn reduce(levels: &Levels, stages: &Stages, args: &CollArgs<'_>) -> CommResult<()> {
    let root = levels.map.places[args.root];
    let with_root = levels.here.node == root.node;
    let is_root = levels.here == root;
    let mut whole = Vec::new();
    // SAFETY: the buffers are the caller's, or of an operand's size.
    unsafe {
        let Some(leaders) = &stages.leaders else {
            combine(stages, args, null_mut())?;
            return match with_root {
                true => hand_over(levels, stages, args, null()),
                false => Ok(()),
            };
        };
        let mut part = memory(args.block())?;
        combine(stages, args, part.as_mut_ptr())?;
        let result = match (with_root, is_root) {
            (true, true) => args.recv,
            (true, false) => {
                whole = memory(args.block())?;
                whole.as_mut_ptr()
            }
            _ => null_mut(),
        };
        let between = CollArgs {
            send: part.as_ptr(),
            recv: result,
            root: root.node,
            ..*args
        };
        leaders.collective(Collective::Reduce, &between)?;
        if with_root {
            hand_over(levels, stages, args, whole.as_ptr())?;
        }
        Ok(())
    }
}

/// Brings the result of a reduction from the leader of the root's node to the root, if these are two. Called by all ranks
/// of that node.
///
/// # Safety
/// As for [`run`]; at the leader `result` is good for an operand.
unsafe fn hand_over(
    levels: &Levels,
    stages: &Stages,
    args: &CollArgs<'_>,
    result: *const u8,
) -> CommResult<()> {
    let root = levels.map.places[args.root];
    if root.local == LEADER {
        return Ok(());
    }
    let is_root = levels.here == root;
    let counts: Vec<usize> = (0..stages.node.size())
        .map(|rank| if rank == root.local { args.count } else { 0 })
        .collect();
    let at = vec![0; counts.len()];
    let is_leader = levels.here.local == LEADER;
    let blocks = BlockList {
        counts: &counts,
        displacements: &at,
        types: &[],
    };
    let args = CollArgs {
        send: result,
        send_blocks: if is_leader {
            blocks
        } else {
            BlockList::default()
        },
        recv: if is_root { args.recv } else { null_mut() },
        count: if is_root { args.count } else { 0 },
        root: LEADER,
        ..*args
    };
    // SAFETY: the caller vouches for both buffers.
    unsafe { stages.node.collective(Collective::Scatterv, &args) }
}

/// # Safety
/// As for [`run`].
unsafe fn allreduce(stages: &Stages, args: &CollArgs<'_>) -> CommResult<()> {
    // SAFETY: the receive buffer is good for an operand at every rank.
    unsafe {
        combine(stages, args, args.recv)?;
        if let Some(leaders) = &stages.leaders {
            let between = CollArgs {
                send: null(),
                ..*args
            };
            leaders.collective(Collective::Allreduce, &between)?;
        }
        bcast_from(&stages.node, args, LEADER)
    }
}

/// The blocks of a node to its leader, those of all nodes between the leaders, and all blocks to all.
///
/// # Safety
/// As for [`run`]; the ranks of each node follow each other.
unsafe fn allgather(levels: &Levels, stages: &Stages, args: &CollArgs<'_>) -> CommResult<()> {
    let map = &levels.map;
    let (node, block) = (levels.here.node, args.block());
    let first = map.leaders[node];
    // SAFETY: the receive buffer has a block of each rank, those of this node from the leader's on.
    unsafe {
        let ours = args.recv.add(first * block);
        let is_leader = stages.leaders.is_some();
        let given = match args.send.is_null() {
            true if is_leader => null(),
            true => ours.add(levels.here.local * block).cast_const(),
            false => args.send,
        };
        let within = CollArgs {
            send: given,
            recv: if is_leader { ours } else { null_mut() },
            root: LEADER,
            ..*args
        };
        stages.node.collective(Collective::Gather, &within)?;
        if let Some(leaders) = &stages.leaders {
            let counts: Vec<usize> = map.sizes.iter().map(|size| size * args.count).collect();
            let at: Vec<usize> = map.leaders.iter().map(|rank| rank * args.count).collect();
            let between = CollArgs {
                send: null(),
                count: counts[node],
                recv_blocks: BlockList {
                    counts: &counts,
                    displacements: &at,
                    types: &[],
                },
                ..*args
            };
            leaders.collective(Collective::Allgatherv, &between)?;
        }
        let all = CollArgs {
            count: args.count * map.places.len(),
            ..*args
        };
        bcast_from(&stages.node, &all, LEADER)
    }
}
