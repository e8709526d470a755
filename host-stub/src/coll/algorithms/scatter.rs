//! Scatter from a root. `all` is the root's buffer, and `mine` receives this rank's block.

use super::at;
use crate::schedule::Plan;

/// Down a binomial tree, in ceil(log2 n) steps (Thakur, Rabenseifner, Gropp, 2005).
pub(super) fn binomial(plan: &mut Plan, all: *const u8, mine: *mut u8, block: usize, root: usize) {
    let (rank, size) = (plan.rank(), plan.size());
    let relative = (rank + size - root) % size;
    // The blocks of this rank's subtree, in relative order.
    let most = match relative {
        0 => size,
        _ => (1 << relative.trailing_zeros()).min(size - relative),
    };
    let held = plan.scratch(most * block);
    let mut mask = 1;
    while mask < size && relative & mask == 0 {
        mask <<= 1;
    }
    if relative == 0 {
        let tail = size - root;
        plan.copy(at(all, root * block), held, tail * block);
        plan.copy(all, held.wrapping_add(tail * block), root * block);
    } else {
        plan.receive((relative - mask + root) % size, held, most * block);
        plan.round();
    }
    mask >>= 1;
    while mask > 0 {
        if relative + mask < size {
            let count = mask.min(size - relative - mask);
            let to = (relative + mask + root) % size;
            plan.send(to, at(held, mask * block), count * block);
        }
        mask >>= 1;
    }
    plan.copy(held, mine, block);
}
