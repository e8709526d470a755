//! All to all. The i-th block of `from` goes to rank i, the i-th of `into` comes from rank i.

use super::{at, at_mut};
use crate::schedule::{Extents, Plan};

/// In ceil(log2 n) rounds of n / 2 blocks each, for short blocks of one size (Bruck and others, 1997):
/// block i of the rotated buffer travels by the set bits of i.
pub(super) fn bruck(plan: &mut Plan, from: *const u8, into: *mut u8, block: usize) {
    let (rank, size) = (plan.rank(), plan.size());
    let held = plan.scratch(size * block);
    let half = size.div_ceil(2) * block;
    let (packed, arrived) = (plan.scratch(half), plan.scratch(half));
    let tail = size - rank;
    plan.copy(at(from, rank * block), held, tail * block);
    plan.copy(from, at_mut(held, tail * block), rank * block);
    let mut distance = 1;
    while distance < size {
        let moving = |index: &usize| index & distance != 0;
        let mut count = 0;
        for index in (0..size).filter(moving) {
            plan.copy(
                at(held, index * block),
                at_mut(packed, count * block),
                block,
            );
            count += 1;
        }
        plan.send((rank + distance) % size, packed, count * block);
        plan.receive((rank + size - distance) % size, arrived, count * block);
        plan.round();
        for (place, index) in (0..size).filter(moving).enumerate() {
            plan.copy(
                at(arrived, place * block),
                at_mut(held, index * block),
                block,
            );
        }
        distance *= 2;
    }
    for index in 0..size {
        let source = (rank + size - index) % size;
        plan.copy(at(held, index * block), at_mut(into, source * block), block);
    }
}

/// One partner after the other, for long blocks, and for those of which each rank knows its own only:
/// in round i to the rank i further on, from the one i before (Thakur, Rabenseifner, Gropp, 2005).
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
