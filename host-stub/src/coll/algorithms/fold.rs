//! Numbers of ranks that are no power of two: the first ranks are folded in pairs, so that a power
//! of two remains, and unfolded at the end (Rabenseifner and Träff, "More Efficient Reduction
//! Algorithms for Non-Power-of-Two Number of Processors", 2004).

use super::Reduction;
use crate::schedule::Plan;

/// The fold, as one rank sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Folded {
    /// Number of ranks that remain, a power of two.
    pub(super) size: usize,
    /// Number of folded pairs.
    pairs: usize,
    /// This rank's number among the remaining ranks; `None` if it was folded away.
    pub(super) rank: Option<usize>,
}

impl Folded {
    /// The fold of `size` ranks, for `rank`. In each folded pair, the odd rank remains.
    pub(super) fn new(rank: usize, size: usize) -> Folded {
        let remaining = 1 << size.ilog2();
        let pairs = size - remaining;
        let place = if rank >= 2 * pairs {
            Some(rank - pairs)
        } else if rank % 2 == 1 {
            Some(rank / 2)
        } else {
            None
        };
        Folded {
            size: remaining,
            pairs,
            rank: place,
        }
    }

    /// The original number of a remaining rank.
    pub(super) fn whole(&self, rank: usize) -> usize {
        if rank < self.pairs {
            2 * rank + 1
        } else {
            rank + self.pairs
        }
    }

    /// Sends this rank's data to its partner, or combines the partner's data with its own.
    pub(super) fn fold(&self, plan: &mut Plan, what: &Reduction, held: *mut u8, room: *mut u8) {
        let rank = plan.rank();
        if rank >= 2 * self.pairs {
            return;
        }
        if self.rank.is_none() {
            plan.send(rank + 1, held, what.bytes());
            plan.round();
        } else {
            plan.receive(rank - 1, room, what.bytes());
            plan.round();
            what.absorb(plan, held, room, true);
        }
    }

    /// Sends the result to the ranks that were folded away.
    pub(super) fn unfold(&self, plan: &mut Plan, held: *mut u8, bytes: usize) {
        let rank = plan.rank();
        if rank >= 2 * self.pairs {
            return;
        }
        if self.rank.is_none() {
            plan.receive(rank + 1, held, bytes);
        } else {
            plan.send(rank - 1, held, bytes);
        }
        plan.round();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_of_two_remains_and_is_numbered() {
        for size in 1..40 {
            let mut remaining = Vec::new();
            for rank in 0..size {
                let folded = Folded::new(rank, size);
                if let Some(place) = folded.rank {
                    assert_eq!(folded.whole(place), rank);
                    remaining.push(place);
                }
            }
            let wanted: Vec<usize> = (0..1 << size.ilog2()).collect();
            assert_eq!(remaining, wanted, "in the order of the ranks");
        }
    }
}
