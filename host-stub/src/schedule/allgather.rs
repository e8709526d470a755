//! The one algorithm that communicators need themselves, to be made.

use super::extents::Extents;
use super::plan::Plan;

/// An allgather in ceil(log2 n) rounds, for any number of ranks: Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient
/// Algorithms for All-to-All Communications in Multiport Message-Passing Systems", 1997.
///
/// The data from `from` is this rank's block; the blocks of all ranks go to their places in `into`.
pub(crate) fn allgather_bruck(plan: &mut Plan, from: *const u8, into: *mut u8, blocks: &Extents) {
    let (rank, size) = (plan.rank(), plan.size());
    let mine = blocks.of(rank);
    if size == 1 {
        plan.copy(from, into.wrapping_add(mine.offset), mine.len);
        return;
    }
    // The size in bytes of the first `count` blocks at rank `first`, which begin with the rank's
    // own block.
    let held = |first: usize, count: usize| blocks.bytes(first, count, size);
    let all = plan.scratch(held(rank, size));
    plan.copy(from, all, mine.len);
    let mut have = 1;
    while have < size {
        let count = have.min(size - have);
        plan.send((rank + size - have) % size, all, held(rank, count));
        let source = (rank + have) % size;
        let arriving = all.wrapping_add(held(rank, have));
        plan.receive(source, arriving, held(source, count));
        plan.round();
        have += count;
    }
    blocks.unpack(plan, all, (rank, size), into);
}
