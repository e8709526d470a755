//! Broadcast.

use crate::schedule::Plan;

/// Down a binomial tree, in ceil(log2 n) steps: Thakur, Rabenseifner, Gropp, "Optimization of
/// Collective Communication Operations in MPICH", 2005.
pub(super) fn binomial(plan: &mut Plan, buffer: *mut u8, len: usize, root: usize) {
    let (rank, size) = (plan.rank(), plan.size());
    let relative = (rank + size - root) % size;
    let mut mask = 1;
    while mask < size && relative & mask == 0 {
        mask <<= 1;
    }
    if mask < size {
        plan.receive((relative - mask + root) % size, buffer, len);
        plan.round();
    }
    // The farthest rank is served first, because it has the most ranks to pass the data on to.
    mask >>= 1;
    while mask > 0 {
        if relative + mask < size {
            plan.send((relative + mask + root) % size, buffer, len);
        }
        mask >>= 1;
    }
}
