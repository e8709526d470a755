//! Gather to a root. `mine` is this rank's block, `all` the root's buffer.

use super::at_mut;
use crate::schedule::Plan;

/// Up a binomial tree, in ceil(log2 n) steps (Thakur, Rabenseifner, Gropp, 2005).
pub(super) fn binomial(plan: &mut Plan, mine: *const u8, all: *mut u8, block: usize, root: usize) {
    let (rank, size) = (plan.rank(), plan.size());
    let relative = (rank + size - root) % size;
    // The blocks of this rank's subtree, in relative order.
    let most = match relative {
        0 => size,
        _ => (1 << relative.trailing_zeros()).min(size - relative),
    };
    let held = plan.scratch(most * block);
    plan.copy(mine, held, block);
    let mut mask = 1;
    while mask < size && relative & mask == 0 {
        if relative + mask < size {
            let count = mask.min(size - relative - mask);
            let from = (relative + mask + root) % size;
            plan.receive(from, at_mut(held, mask * block), count * block);
        }
        mask <<= 1;
    }
    plan.round();
    if relative != 0 {
        plan.send((relative - mask + root) % size, held, most * block);
        return;
    }
    let tail = size - root;
    plan.copy(held, at_mut(all, root * block), tail * block);
    plan.copy(at_mut(held, tail * block), all, root * block);
}
