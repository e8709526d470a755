//! Reduce to a root.

use super::Reduction;
use crate::schedule::Plan;

/// Up a binomial tree (Thakur, Rabenseifner, Gropp, 2005). `held` contains this rank's operand, and
/// at the root later the result.
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
