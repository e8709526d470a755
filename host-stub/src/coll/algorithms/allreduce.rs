//! Allreduce, and the halves of it that others use.

use super::fold::Folded;
use super::{Reduction, at, at_mut};
use crate::schedule::Plan;

/// Everything to everyone in log2 n rounds, for short buffers: recursive doubling (Thakur,
/// Rabenseifner, Gropp, 2005). `held` holds this rank's operand, and then the result.
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

/// Reduce-scatter by recursive halving, then allgather by recursive doubling, for long buffers:
/// each byte is sent twice, whatever the count of ranks (Rabenseifner, "Optimization of Collective
/// Reduction Operations", 2004).
pub(super) fn rabenseifner(plan: &mut Plan, what: &Reduction, held: *mut u8) {
    let room = plan.scratch(what.bytes());
    let folded = Folded::new(plan.rank(), plan.size());
    folded.fold(plan, what, held, room);
    if folded.rank.is_some() {
        let blocks = Blocks::even(what, folded.size);
        halving(plan, what, &folded, &blocks, held, room);
        doubling(plan, &folded, &blocks, held);
    }
    folded.unfold(plan, held, what.bytes());
}

/// Where the blocks of a buffer lie, one per rank.
pub(super) struct Blocks {
    /// Elements before each block, and after the last.
    starts: Vec<usize>,
    size: usize,
}

impl Blocks {
    /// Blocks of nearly one size.
    pub(super) fn even(what: &Reduction, blocks: usize) -> Blocks {
        let (least, more) = (what.count / blocks, what.count % blocks);
        Self::new(
            what,
            (0..blocks).map(|block| least + usize::from(block < more)),
        )
    }

    /// Blocks of so many elements.
    pub(super) fn new(what: &Reduction, counts: impl Iterator<Item = usize>) -> Blocks {
        let mut starts = vec![0];
        let mut sum = 0;
        starts.extend(counts.map(|count| {
            sum += count;
            sum
        }));
        Blocks {
            starts,
            size: what.datatype.size(),
        }
    }

    /// Offset and length in bytes of the blocks from `first` up to, not including, `end`.
    pub(super) fn bytes(&self, first: usize, end: usize) -> (usize, usize) {
        let (first, end) = (self.starts[first], self.starts[end]);
        (first * self.size, (end - first) * self.size)
    }

    /// Elements of the blocks from `first` up to `end`.
    pub(super) fn count(&self, first: usize, end: usize) -> usize {
        self.starts[end] - self.starts[first]
    }
}

/// Leaves every rank that remains with the result of the block that has its number, by recursive
/// halving.
pub(super) fn halving(
    plan: &mut Plan,
    what: &Reduction,
    folded: &Folded,
    blocks: &Blocks,
    held: *mut u8,
    room: *mut u8,
) {
    let Some(rank) = folded.rank else { return };
    let (mut first, mut end) = (0, folded.size);
    let mut distance = folded.size / 2;
    while distance > 0 {
        let partner = rank ^ distance;
        let middle = first + distance;
        let (kept, given) = if rank < partner {
            ((first, middle), (middle, end))
        } else {
            ((middle, end), (first, middle))
        };
        let (offset, len) = blocks.bytes(given.0, given.1);
        plan.send(folded.whole(partner), at(held, offset), len);
        let (offset, len) = blocks.bytes(kept.0, kept.1);
        plan.receive(folded.whole(partner), at_mut(room, offset), len);
        plan.round();
        let part = what.of(blocks.count(kept.0, kept.1));
        part.absorb(plan, at_mut(held, offset), at(room, offset), partner < rank);
        (first, end) = kept;
        distance /= 2;
    }
}

/// Gives every rank that remains all blocks, of which each begins with that of its number, by
/// recursive doubling.
fn doubling(plan: &mut Plan, folded: &Folded, blocks: &Blocks, held: *mut u8) {
    let Some(rank) = folded.rank else { return };
    let mut distance = 1;
    while distance < folded.size {
        let partner = rank ^ distance;
        let mine = rank / distance * distance;
        let theirs = partner / distance * distance;
        let (offset, len) = blocks.bytes(mine, mine + distance);
        plan.send(folded.whole(partner), at(held, offset), len);
        let (offset, len) = blocks.bytes(theirs, theirs + distance);
        plan.receive(folded.whole(partner), at_mut(held, offset), len);
        plan.round();
        distance *= 2;
    }
}
