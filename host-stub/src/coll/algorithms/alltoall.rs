//! All to all. The i-th block of `from` goes to rank i, the i-th of `into` comes from rank i.

use super::{at, at_mut};
use crate::schedule::{Extents, Plan};

/// Each rank exchanges blocks with one partner after the other. A rank only needs to know its own blocks: in round i it
/// sends to the rank i positions after it, and receives from the rank i positions before it (Thakur, Rabenseifner, Gropp,
/// 2005).
pub(super) fn pairwise(
    plan: &mut Plan,
    (from, given): (*const u8, &Extents),
    (into, taken): (*mut u8, &Extents),
) {
    let (rank, size) = (plan.rank(), plan.size());
    let (own, place) = (given.of(rank), taken.of(rank));
    plan.copy(at(from, own.offset), at_mut(into, place.offset), own.len);
    for step in 1..size {
        let (to, source) = ((rank + step) % size, (rank + size - step) % size);
        let block = given.of(to);
        plan.send(to, at(from, block.offset), block.len);
        let block = taken.of(source);
        plan.receive(source, at_mut(into, block.offset), block.len);
        plan.round();
    }
}
