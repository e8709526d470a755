//! Allgather of long blocks; that of short ones is [`crate::schedule::allgather_bruck`].

use crate::schedule::{Extents, Plan};

/// Round a ring in n - 1 rounds, for long blocks: each is moved once into its place at every rank
/// (Thakur, Rabenseifner, Gropp, 2005). This rank's block may be in its place already.
pub(super) fn ring(plan: &mut Plan, from: *const u8, into: *mut u8, blocks: &Extents) {
    let (rank, size) = (plan.rank(), plan.size());
    let place = |rank: usize| {
        let block = blocks.of(rank);
        (into.wrapping_add(block.offset), block.len)
    };
    let (mine, len) = place(rank);
    plan.copy(from, mine, len);
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    for step in 0..size - 1 {
        let (given, len) = place((rank + size - step) % size);
        plan.send(next, given, len);
        let (taken, len) = place((rank + 2 * size - step - 1) % size);
        plan.receive(before, taken, len);
        plan.round();
    }
}
