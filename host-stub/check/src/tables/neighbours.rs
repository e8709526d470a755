//! The ranks of this rank's node, which run the tests of shared memory, on any number of nodes.

use super::super::case::{Context, Failure};
use host_stub::comm::Comm;

/// A communicator of the ranks of this node.
pub(super) struct Neighbours {
    pub(super) comm: Comm,
    /// This rank's number among the neighbours.
    pub(super) rank: usize,
    pub(super) size: usize,
}

impl Neighbours {
    /// Collective over the job.
    pub(super) fn of(context: &Context<'_>) -> Result<Neighbours, Failure> {
        let comm = Comm::world(context.job)?.split_by_node(0)?;
        Ok(Neighbours {
            rank: comm.rank(),
            size: comm.size(),
            comm,
        })
    }
}
