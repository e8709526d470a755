//! Barrier.

use crate::schedule::Plan;

/// In ceil(log2 n) rounds: Hensgen, Finkel, Manber, "Two Algorithms for Barrier Synchronization",
/// 1988. In round k, a rank signals the rank 2^k positions after it, and waits for the rank 2^k
///       positions before it.
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
