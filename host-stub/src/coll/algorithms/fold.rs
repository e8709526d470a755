//! Numbers of ranks that are no power of two: the first ranks are folded in pairs, so that a power
//! of two remains, and unfolded at the end (Rabenseifner and Träff, "More Efficient Reduction
//! Algorithms for Non-Power-of-Two Number of Processors", 2004).

use super::Reduction;
use crate::schedule::Plan;

/// The ranks that remain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Folded {
    /// Ranks that remain, a power of two.
    pub(super) size: usize,
    /// Pairs that were folded.
    pairs: usize,
    /// This rank among those that remain; none for one that was folded away.
    pub(super) rank: Option<usize>,
}

impl Folded {
    /// The fold of `size` ranks, as `rank` sees it: of each pair at the beginning the odd remains.
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

    /// The rank among all of one that remains.
    pub(super) fn whole(&self, rank: usize) -> usize {
        if rank < self.pairs {
            2 * rank + 1
        } else {
            rank + self.pairs
        }
    }

    /// Gives what this rank holds to its pair, or takes the pair's into it.
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

    /// Gives the result to the ranks that were folded away.
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
