//! Reduce-scatter: every rank gets a block of the result.

use super::{Reduction, at};
use crate::schedule::Plan;

/// Sends every block directly to its rank, one partner after the other (pairwise exchange: Thakur, Rabenseifner, Gropp,
/// 2005). Each rank sends its operand once and keeps room for one block. Rank `r` gets `counts[r]` elements in `mine`,
/// which lies outside of `operand`.
pub(super) fn pairwise(
    plan: &mut Plan,
    what: &Reduction,
    counts: &[usize],
    operand: *const u8,
    mine: *mut u8,
) {
    let (rank, size) = (plan.rank(), plan.size());
    let starts: Vec<usize> = counts
        .iter()
        .scan(0, |next, count| {
            let start = *next;
            *next += count;
            Some(start)
        })
        .collect();
    let block = |rank: usize| (what.of(starts[rank]).bytes(), what.of(counts[rank]).bytes());
    let (offset, len) = block(rank);
    let part = what.of(counts[rank]);
    let room = plan.scratch(len);
    // The own block is copied behind the first send, because a partner waits for that message, and the own block is
    // not needed before a message has arrived.
    let own = |plan: &mut Plan| plan.copy(at(operand, offset), mine, len);
    if size == 1 {
        own(plan);
    }
    for step in 1..size {
        let (to, source) = ((rank + step) % size, (rank + size - step) % size);
        let (offset, bytes) = block(to);
        plan.send(to, at(operand, offset), bytes);
        plan.receive(source, room, len);
        if step == 1 {
            own(plan);
        }
        plan.round();
        part.absorb(plan, mine, room, source < rank);
    }
}
