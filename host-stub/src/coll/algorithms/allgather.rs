//! Allgather.

use crate::schedule::Plan;

/// In ceil(log2 n) rounds, for any count of ranks: Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient
/// Algorithms for All-to-All Communications in Multiport Message-Passing Systems", 1997.
///
/// Blocks of `block` bytes; this rank's from `from`, all in rank order to `into`.
pub(crate) fn allgather_bruck(plan: &mut Plan, from: *const u8, into: *mut u8, block: usize) {
    let (rank, size) = (plan.rank(), plan.size());
    if size == 1 {
        plan.copy(from, into, block);
        return;
    }
    let blocks = plan.scratch(block * size);
    plan.copy(from, blocks, block);
    let mut have = 1;
    while have < size {
        let count = have.min(size - have);
        plan.send((rank + size - have) % size, blocks, count * block);
        let arriving = blocks.wrapping_add(have * block);
        plan.receive((rank + have) % size, arriving, count * block);
        plan.round();
        have += count;
    }
    // What lies at index i is of rank + i.
    let tail = size - rank;
    plan.copy(blocks, into.wrapping_add(rank * block), tail * block);
    plan.copy(blocks.wrapping_add(tail * block), into, rank * block);
}

/// Round a ring in n - 1 rounds, for long blocks: each is moved once into its place at every rank
/// (Thakur, Rabenseifner, Gropp, 2005). This rank's block may be in its place already.
pub(super) fn ring(plan: &mut Plan, from: *const u8, into: *mut u8, block: usize) {
    let (rank, size) = (plan.rank(), plan.size());
    plan.copy(from, into.wrapping_add(rank * block), block);
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    for step in 0..size - 1 {
        let given = (rank + size - step) % size;
        let taken = (rank + 2 * size - step - 1) % size;
        plan.send(next, into.wrapping_add(given * block), block);
        plan.receive(before, into.wrapping_add(taken * block), block);
        plan.round();
    }
}
