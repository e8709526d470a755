//! The published algorithms, each as the steps of one rank.
//!
//! Buffers are raw: the caller that starts the collective vouches for them (see [`crate::schedule`]).
//! Rank `r` of `n` is meant where nothing else is said.

mod allgather;
mod allreduce;
mod alltoall;
mod barrier;
mod bcast;
mod choose;
mod fold;
mod gather;
mod reduce;
mod reduce_scatter;
mod scan;
mod scatter;

pub use choose::REDUCE_LONG;
pub(crate) use choose::build;

use plugin_api::Datatype;

use crate::base::Op;
use crate::schedule::Plan;

/// What a reduction does with how much.
#[derive(Clone, Copy)]
pub(crate) struct Reduction {
    pub(crate) op: Op,
    pub(crate) datatype: Datatype,
    /// Elements of one rank.
    pub(crate) count: usize,
}

impl Reduction {
    fn bytes(&self) -> usize {
        self.count * self.datatype.size()
    }

    /// The same, of a part.
    fn of(&self, count: usize) -> Reduction {
        Reduction { count, ..*self }
    }

    /// `into = left op right`.
    fn combine(&self, plan: &mut Plan, left: *const u8, right: *const u8, into: *mut u8) {
        plan.combine((self.op, self.datatype), left, right, into, self.count);
    }

    /// Combines what this rank holds with what came from another, the lower rank's on the left, so
    /// that every rank computes the same bits.
    fn absorb(&self, plan: &mut Plan, held: *mut u8, arrived: *const u8, from_lower: bool) {
        if from_lower {
            self.combine(plan, arrived, held, held);
        } else {
            self.combine(plan, held, arrived, held);
        }
    }
}

/// A place in a buffer; may be its end.
fn at(base: *const u8, offset: usize) -> *const u8 {
    base.wrapping_add(offset)
}

/// The same in one that is written.
fn at_mut(base: *mut u8, offset: usize) -> *mut u8 {
    base.wrapping_add(offset)
}
