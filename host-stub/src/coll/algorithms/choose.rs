//! Which algorithm for how much among how many.
//!
//! The choice depends only on what all ranks have in common. Where messages are cheap and copies
//! are not (short buffers) the number of rounds decides, else the number of bytes moved.

use super::allreduce::Blocks;
use super::{
    Reduction, allgather, allreduce, alltoall, at, barrier, bcast, gather, reduce, reduce_scatter,
    scan, scatter,
};
use crate::coll::{CollArgs, Collective};
use crate::schedule::{Plan, allgather_bruck};

/// Bytes from which a broadcast to more than two ranks is scattered.
const BCAST_LONG: usize = 1 << 20;
/// Bytes from which reductions are scattered.
pub const REDUCE_LONG: usize = 8 << 10;
/// Bytes of a block from which gather and scatter go straight.
pub(super) const BLOCK_LONG: usize = 2 << 10;
/// Bytes of all blocks together from which an allgather goes round the ring.
const ALLGATHER_LONG: usize = 16 << 10;
/// Bytes of a block from which all-to-all goes pair by pair.
const ALLTOALL_LONG: usize = 256;

/// Adds the steps of one rank. The arguments were checked.
pub(crate) fn build(plan: &mut Plan, collective: Collective, args: &CollArgs<'_>) {
    let (size, block) = (plan.size(), args.block());
    let what = Reduction {
        op: args.op,
        datatype: args.datatype,
        count: args.count,
    };
    let in_place = args.send.is_null();
    let (send, recv, root) = (args.send, args.recv, args.root);
    match collective {
        Collective::Barrier => barrier::dissemination(plan),
        Collective::Bcast => broadcast(plan, recv, block, root),
        Collective::Reduce => {
            let held = if plan.rank() == root {
                recv
            } else {
                plan.scratch(block)
            };
            // In place is at the root only.
            plan.copy(if in_place { recv } else { send }, held, block);
            reduced(plan, &what, held, root);
        }
        Collective::Allreduce => {
            if !in_place {
                plan.copy(send, recv, block);
            }
            if block >= REDUCE_LONG && args.count >= size {
                allreduce::rabenseifner(plan, &what, recv);
            } else {
                allreduce::recursive_doubling(plan, &what, recv);
            }
        }
        Collective::Gather => gathered(plan, args),
        Collective::Scatter => parted(plan, args),
        Collective::Allgather | Collective::Allgatherv => {
            gathered_by_all(plan, collective, args);
        }
        Collective::Alltoall | Collective::Alltoallv => exchanged(plan, collective, args),
        Collective::ReduceScatter => scattered(plan, &what, args),
        Collective::Scan | Collective::Exscan => {
            let operand = if in_place { recv } else { send };
            let inclusive = collective == Collective::Scan;
            scan::recursive_doubling(plan, &what, operand, recv, inclusive);
        }
    }
}

/// A broadcast.
pub(super) fn broadcast(plan: &mut Plan, buffer: *mut u8, len: usize, root: usize) {
    if plan.size() > 2 && len >= BCAST_LONG {
        bcast::scatter_ring(plan, buffer, len, root);
    } else {
        bcast::binomial(plan, buffer, len, root);
    }
}

/// A reduce. `held` holds this rank's operand, and at the root then the result.
pub(super) fn reduced(plan: &mut Plan, what: &Reduction, held: *mut u8, root: usize) {
    if what.bytes() >= REDUCE_LONG && what.count >= plan.size() {
        reduce::rabenseifner(plan, what, held, root);
    } else {
        reduce::binomial(plan, what, held, root);
    }
}

/// A gather.
fn gathered(plan: &mut Plan, args: &CollArgs<'_>) {
    let (block, root, recv) = (args.block(), args.root, args.recv);
    let mine = if args.send.is_null() {
        at(recv, root * block)
    } else {
        args.send
    };
    if block < BLOCK_LONG {
        gather::binomial(plan, mine, recv, block, root);
    } else {
        gather::linear(plan, mine, recv, block, root);
    }
}

/// A scatter.
fn parted(plan: &mut Plan, args: &CollArgs<'_>) {
    let (block, root) = (args.block(), args.root);
    let mine = if args.recv.is_null() {
        // In place: the root's block stays where it is.
        plan.scratch(block)
    } else {
        args.recv
    };
    if block < BLOCK_LONG {
        scatter::binomial(plan, args.send, mine, block, root);
    } else {
        scatter::linear(plan, args.send, mine, block, root);
    }
}

/// An allgather.
fn gathered_by_all(plan: &mut Plan, collective: Collective, args: &CollArgs<'_>) {
    let size = plan.size();
    let blocks = args.taken_blocks(collective);
    let mine = if args.send.is_null() {
        at(args.recv, blocks.of(plan.rank()).offset)
    } else {
        args.send
    };
    if blocks.bytes(0, size, size) >= ALLGATHER_LONG {
        allgather::ring(plan, mine, args.recv, &blocks);
    } else {
        allgather_bruck(plan, mine, args.recv, &blocks);
    }
}

/// An all-to-all.
fn exchanged(plan: &mut Plan, collective: Collective, args: &CollArgs<'_>) {
    let size = plan.size();
    let taken = args.taken_blocks(collective);
    let (from, given) = if args.is_in_place(collective) {
        let copy = plan.scratch(taken.bytes(0, size, size));
        taken.pack(plan, size, args.recv, copy);
        (copy.cast_const(), taken.packed(size))
    } else {
        (args.send, args.given_blocks(collective))
    };
    if collective == Collective::Alltoall && args.block() < ALLTOALL_LONG {
        alltoall::bruck(plan, from, args.recv, args.block());
    } else {
        alltoall::pairwise(plan, (from, &given), (args.recv, &taken));
    }
}

fn scattered(plan: &mut Plan, what: &Reduction, args: &CollArgs<'_>) {
    let size = plan.size();
    let total = args.total(size);
    let whole = what.of(total);
    let blocks = Blocks::new(what, (0..size).map(|rank| args.count_of(rank)));
    let in_place = args.send.is_null();
    let operand = if in_place { args.recv } else { args.send };
    let bytes = whole.bytes();
    let short = bytes < REDUCE_LONG;
    if !short && !size.is_power_of_two() && !in_place {
        reduce_scatter::pairwise(plan, &whole, &blocks, operand, args.recv);
        return;
    }
    let held = plan.scratch(bytes);
    plan.copy(operand, held, bytes);
    if short {
        reduce_scatter::through_a_root(plan, &whole, &blocks, held, args.recv);
    } else if size.is_power_of_two() {
        reduce_scatter::recursive_halving(plan, &whole, &blocks, held, args.recv);
    } else {
        reduce_scatter::pairwise(plan, &whole, &blocks, held, args.recv);
    }
}
