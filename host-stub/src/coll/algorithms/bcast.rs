//! Broadcast.

use super::{at, at_mut};
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
    // The farthest first: it has most to pass on.
    mask >>= 1;
    while mask > 0 {
        if relative + mask < size {
            plan.send((relative + mask + root) % size, buffer, len);
        }
        mask >>= 1;
    }
}

/// Scattered straight from the root, then gathered by all round the ring: each rank sends and receives nearly twice the
/// data, however many there are. (van de Geijn, "On Global Combine Operations", 1994; without the tree of the
/// scatter, whose parts are long here.)
pub(super) fn scatter_ring(plan: &mut Plan, buffer: *mut u8, len: usize, root: usize) {
    let (rank, size) = (plan.rank(), plan.size());
    let part = |index: usize| {
        let start = len / size * index + len % size * index / size;
        let end = len / size * (index + 1) + len % size * (index + 1) / size;
        (start, end - start)
    };
    if rank == root {
        for to in (0..size).filter(|to| *to != root) {
            let (start, bytes) = part(to);
            plan.send(to, at(buffer, start), bytes);
        }
    } else {
        let (start, bytes) = part(rank);
        plan.receive(root, at_mut(buffer, start), bytes);
    }
    plan.round();
    let (before, next) = ((rank + size - 1) % size, (rank + 1) % size);
    for step in 0..size - 1 {
        let (start, bytes) = part((rank + size - step) % size);
        // The root has every part.
        if next != root {
            plan.send(next, at(buffer, start), bytes);
        }
        let (start, bytes) = part((before + size - step) % size);
        if rank != root {
            plan.receive(before, at_mut(buffer, start), bytes);
        }
        plan.round();
    }
}
