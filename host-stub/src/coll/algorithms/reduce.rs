//! Reduce to a root.

use super::allreduce::{Blocks, halving};
use super::fold::Folded;
use super::{Reduction, at_mut};
use crate::schedule::Plan;

/// Up a binomial tree, for short buffers (Thakur, Rabenseifner, Gropp, 2005). `held` holds this
/// rank's operand, and at the root then the result.
pub(super) fn binomial(plan: &mut Plan, what: &Reduction, held: *mut u8, root: usize) {
    let (rank, size) = (plan.rank(), plan.size());
    let relative = (rank + size - root) % size;
    let room = plan.scratch(what.bytes());
    let mut mask = 1;
    while mask < size {
        if relative & mask != 0 {
            plan.send((relative - mask + root) % size, held, what.bytes());
            plan.round();
            return;
        }
        if relative + mask < size {
            let from = (relative + mask + root) % size;
            plan.receive(from, room, what.bytes());
            plan.round();
            what.absorb(plan, held, room, from < rank);
        }
        mask <<= 1;
    }
}

/// Reduce-scatter by recursive halving, then a gather of the blocks, for long buffers
/// (Rabenseifner, 2004).
pub(super) fn rabenseifner(plan: &mut Plan, what: &Reduction, held: *mut u8, root: usize) {
    let room = plan.scratch(what.bytes());
    let folded = Folded::new(plan.rank(), plan.size());
    folded.fold(plan, what, held, room);
    let blocks = Blocks::even(what, folded.size);
    halving(plan, what, &folded, &blocks, held, room);
    if plan.rank() == root {
        for block in 0..folded.size {
            let owner = folded.whole(block);
            if owner != root {
                let (offset, len) = blocks.bytes(block, block + 1);
                plan.receive(owner, at_mut(held, offset), len);
            }
        }
    } else if let Some(block) = folded.rank {
        let (offset, len) = blocks.bytes(block, block + 1);
        plan.send(root, at_mut(held, offset), len);
    }
    plan.round();
}
