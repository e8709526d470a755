//! Barrier.

use crate::schedule::Plan;

/// In ceil(log2 n) rounds: Hensgen, Finkel, Manber, "Two Algorithms for Barrier Synchronization",
/// 1988. In round k a rank tells the one 2^k further on and waits for the one 2^k before.
pub(super) fn dissemination(plan: &mut Plan) {
    let (rank, size) = (plan.rank(), plan.size());
    let mut distance = 1;
    while distance < size {
        plan.signal((rank + distance) % size);
        plan.await_signal((rank + size - distance) % size);
        plan.round();
        distance *= 2;
    }
}
