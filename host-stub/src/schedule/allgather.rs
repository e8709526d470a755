//! The one algorithm that communicators need themselves, to be made.

use super::plan::Plan;

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
