//! Allgather of long blocks; that of short ones is [`crate::schedule::allgather_bruck`].

use crate::schedule::Plan;

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
