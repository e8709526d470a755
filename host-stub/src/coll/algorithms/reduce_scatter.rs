//! Reduce, of which every rank gets a block.

use super::allreduce::{Blocks, halving};
use super::fold::Folded;
use super::{Reduction, at, reduce};
use crate::schedule::Plan;

/// A reduce to rank 0 and a scatter, for short buffers. `held` holds this rank's operand and may be
/// overwritten.
pub(super) fn through_a_root(
    plan: &mut Plan,
    what: &Reduction,
    blocks: &Blocks,
    held: *mut u8,
    mine: *mut u8,
) {
    reduce::binomial(plan, what, held, 0);
    let (offset, len) = blocks.bytes(plan.rank(), plan.rank() + 1);
    if plan.rank() == 0 {
        for other in 1..plan.size() {
            let (offset, len) = blocks.bytes(other, other + 1);
            plan.send(other, at(held, offset), len);
        }
        plan.copy(at(held, offset), mine, len);
    } else {
        plan.receive(0, mine, len);
    }
}

/// Recursive halving, for long buffers of a power of two of ranks (Thakur, Rabenseifner, Gropp,
/// 2005). As [`through_a_root`] otherwise.
pub(super) fn recursive_halving(
    plan: &mut Plan,
    what: &Reduction,
    blocks: &Blocks,
    held: *mut u8,
    mine: *mut u8,
) {
    let room = plan.scratch(what.bytes());
    let all = Folded::new(plan.rank(), plan.size());
    halving(plan, what, &all, blocks, held, room);
    let (offset, len) = blocks.bytes(plan.rank(), plan.rank() + 1);
    plan.copy(at(held, offset), mine, len);
}

/// Every block straight to its rank, one partner after the other, for long buffers of any count of
/// ranks (pairwise exchange: Thakur, Rabenseifner, Gropp, 2005). `operand` is only read, and
/// `mine` lies outside of it.
pub(super) fn pairwise(
    plan: &mut Plan,
    what: &Reduction,
    blocks: &Blocks,
    operand: *const u8,
    mine: *mut u8,
) {
    let (rank, size) = (plan.rank(), plan.size());
    let (offset, len) = blocks.bytes(rank, rank + 1);
    let part = what.of(blocks.count(rank, rank + 1));
    let room = plan.scratch(len);
    plan.copy(at(operand, offset), mine, len);
    for step in 1..size {
        let (to, source) = ((rank + step) % size, (rank + size - step) % size);
        let (offset, bytes) = blocks.bytes(to, to + 1);
        plan.send(to, at(operand, offset), bytes);
        plan.receive(source, room, len);
        plan.round();
        part.absorb(plan, mine, room, source < rank);
    }
}
