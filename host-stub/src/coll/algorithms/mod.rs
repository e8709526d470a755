//! One published algorithm for each collective, as the steps of one rank. Layers may bring algorithms that suit some sizes
//! or numbers of ranks better ([`crate::comm::table`]).
//!
//! Buffers are raw: the caller that starts the collective guarantees that they are valid (see [`crate::schedule`]). Unless
//! stated otherwise, the algorithms are described for rank `r` of `n`.

mod allreduce;
mod alltoall;
mod barrier;
mod bcast;
mod fold;
mod gather;
mod reduce;
mod reduce_scatter;
mod scan;
mod scatter;

use plugin_api::Datatype;

use super::{CollArgs, Collective};
use crate::base::Op;
use crate::schedule::{Plan, allgather_bruck};

/// Adds the steps of one rank. The arguments were already checked.
pub(crate) fn build(plan: &mut Plan, collective: Collective, args: &CollArgs<'_>) {
    let block = args.block();
    let what = Reduction {
        op: args.op,
        datatype: args.datatype,
        count: args.count,
    };
    let in_place = args.send.is_null();
    let (send, recv, root) = (args.send, args.recv, args.root);
    match collective {
        Collective::Barrier => barrier::dissemination(plan),
        Collective::Bcast => bcast::binomial(plan, recv, block, root),
        Collective::Reduce => {
            let held = if plan.rank() == root {
                recv
            } else {
                plan.scratch(block)
            };
            // Only the root may reduce in place.
            plan.copy(if in_place { recv } else { send }, held, block);
            reduce::binomial(plan, &what, held, root);
        }
        Collective::Allreduce => {
            if !in_place {
                plan.copy(send, recv, block);
            }
            allreduce::recursive_doubling(plan, &what, recv);
        }
        Collective::Gather => {
            let own = at(recv, root * block);
            let mine = if in_place { own } else { send };
            gather::binomial(plan, mine, recv, block, root);
        }
        Collective::Scatter => {
            // In place, the root's block is not moved.
            let mine = if recv.is_null() {
                plan.scratch(block)
            } else {
                recv
            };
            scatter::binomial(plan, send, mine, block, root);
        }
        Collective::Allgather | Collective::Allgatherv => {
            let blocks = args.taken_blocks(collective);
            let own = at(recv, blocks.of(plan.rank()).offset);
            allgather_bruck(plan, if in_place { own } else { send }, recv, &blocks);
        }
        Collective::Alltoall | Collective::Alltoallv => exchanged(plan, collective, args),
        Collective::ReduceScatter => scattered(plan, &what, args),
        Collective::Scan | Collective::Exscan => {
            let operand = if in_place { recv } else { send };
            let inclusive = collective == Collective::Scan;
            scan::recursive_doubling(plan, &what, operand, recv, inclusive);
        }
    }
}

/// Adds an all-to-all, with blocks of one size or of any sizes.
fn exchanged(plan: &mut Plan, collective: Collective, args: &CollArgs<'_>) {
    let size = plan.size();
    let taken = args.taken_blocks(collective);
    let (from, given) = if args.is_in_place(collective) {
        let copy = plan.scratch(taken.bytes(0, size, size));
        taken.pack(plan, size, args.recv, copy);
        (copy.cast_const(), taken.packed(size))
    } else {
        (args.send, args.given_blocks(collective))
    };
    alltoall::pairwise(plan, (from, &given), (args.recv, &taken));
}

/// Adds a reduction that gives every rank a block of the result.
fn scattered(plan: &mut Plan, what: &Reduction, args: &CollArgs<'_>) {
    let size = plan.size();
    let operand = if args.send.is_null() {
        // The result overwrites memory that may still contain operands of other ranks.
        let bytes = what.of(args.total(size)).bytes();
        let kept = plan.scratch(bytes);
        plan.copy(args.recv, kept, bytes);
        kept
    } else {
        args.send
    };
    let counts: Vec<usize> = (0..size).map(|rank| args.count_of(rank)).collect();
    reduce_scatter::pairwise(plan, what, &counts, operand, args.recv);
}

/// The operation, type and number of elements of a reduction.
#[derive(Clone, Copy)]
pub(crate) struct Reduction {
    pub(crate) op: Op,
    pub(crate) datatype: Datatype,
    /// Number of elements of one rank.
    pub(crate) count: usize,
}

impl Reduction {
    fn bytes(&self) -> usize {
        self.count * self.datatype.size()
    }

    /// The same reduction of `count` elements.
    fn of(&self, count: usize) -> Reduction {
        Reduction { count, ..*self }
    }

    /// `into = left op right`.
    fn combine(&self, plan: &mut Plan, left: *const u8, right: *const u8, into: *mut u8) {
        plan.combine((self.op, self.datatype), left, right, into, self.count);
    }

    /// Combines this rank's data with data from another rank. The lower rank's data is the left
    /// operand, so that every rank computes the same bits.
    fn absorb(&self, plan: &mut Plan, held: *mut u8, arrived: *const u8, from_lower: bool) {
        if from_lower {
            self.combine(plan, arrived, held, held);
        } else {
            self.combine(plan, held, arrived, held);
        }
    }
}

/// An address in a buffer, or its end.
fn at(base: *const u8, offset: usize) -> *const u8 {
    base.wrapping_add(offset)
}

/// An address in a writable buffer, or its end.
fn at_mut(base: *mut u8, offset: usize) -> *mut u8 {
    base.wrapping_add(offset)
}
