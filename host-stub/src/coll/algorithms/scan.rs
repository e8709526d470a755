//! Prefix reductions.

use super::Reduction;
use crate::schedule::Plan;

/// In ceil(log2 n) rounds, by recursive doubling (Thakur, Rabenseifner, Gropp, 2005; after Hillis
/// and Steele, "Data Parallel Algorithms", 1986): `result` gets the reduction of the operands of
/// all ranks up to this one, which is included if `inclusive`; without it rank 0's stays as it is.
/// `operand` may be `result`.
pub(super) fn recursive_doubling(
    plan: &mut Plan,
    what: &Reduction,
    operand: *const u8,
    result: *mut u8,
    inclusive: bool,
) {
    let (rank, size) = (plan.rank(), plan.size());
    let (sum, room) = (plan.scratch(what.bytes()), plan.scratch(what.bytes()));
    plan.copy(operand, sum, what.bytes());
    if inclusive {
        plan.copy(operand, result, what.bytes());
    }
    let mut begun = inclusive;
    let mut distance = 1;
    while distance < size {
        let partner = rank ^ distance;
        if partner < size {
            plan.send(partner, sum, what.bytes());
            plan.receive(partner, room, what.bytes());
            plan.round();
            what.absorb(plan, sum, room, partner < rank);
            if partner < rank {
                if begun {
                    what.absorb(plan, result, room, true);
                } else {
                    plan.copy(room, result, what.bytes());
                    begun = true;
                }
            }
        }
        distance *= 2;
    }
}
