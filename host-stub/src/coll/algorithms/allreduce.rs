//! Allreduce.

use super::Reduction;
use super::fold::Folded;
use crate::schedule::Plan;

/// All ranks exchange everything in log2 n rounds: recursive doubling (Thakur, Rabenseifner, Gropp, "Optimization of
/// Collective Communication Operations in MPICH", 2005). `held` contains this rank's operand, and later the result.
pub(super) fn recursive_doubling(plan: &mut Plan, what: &Reduction, held: *mut u8) {
    let room = plan.scratch(what.bytes());
    let folded = Folded::new(plan.rank(), plan.size());
    folded.fold(plan, what, held, room);
    if let Some(rank) = folded.rank {
        let mut distance = 1;
        while distance < folded.size {
            let partner = rank ^ distance;
            plan.send(folded.whole(partner), held, what.bytes());
            plan.receive(folded.whole(partner), room, what.bytes());
            plan.round();
            what.absorb(plan, held, room, partner < rank);
            distance *= 2;
        }
    }
    folded.unfold(plan, held, what.bytes());
}
