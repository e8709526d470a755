//! What the arguments of a collective mean on an intercommunicator, where blocks come from the other group and go to it,
//! and whether it can be as it is called.

use super::args::{CollArgs, Collective, Span};
use super::blocks::BlockList;
use super::view::View;
use crate::comm::Sides;

/// The root that a rank names of a collective over an intercommunicator whose root it is itself (MPI_ROOT). The other
/// group names the root by its rank.
pub const ROOT: usize = usize::MAX;

/// The root that the other ranks of the root's group name (MPI_PROC_NULL); they have no part in the collective.
pub const PROC_NULL: usize = usize::MAX - 1;

/// What a rank is in a collective with a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Root,
    /// It gives to the root, or gets of it.
    Other,
    /// It is in the root's group.
    Idle,
}

impl Role {
    pub(crate) fn of(root: usize) -> Role {
        match root {
            ROOT => Role::Root,
            PROC_NULL => Role::Idle,
            _ => Role::Other,
        }
    }
}

/// The end of the last of so many blocks.
fn end(blocks: &crate::schedule::Extents, count: usize) -> usize {
    let ends = (0..count).map(|rank| blocks.of(rank).end());
    ends.max().unwrap_or(0)
}

fn some(list: &BlockList<'_>) -> bool {
    list.counts.iter().any(|count| *count > 0)
}

impl CollArgs<'_> {
    /// What a rank does with its buffers; of arguments that were checked.
    pub(super) fn inter_span(
        &self,
        collective: Collective,
        view: &View<'_>,
        sides: &Sides,
    ) -> Span {
        let (block, theirs) = (self.block(), sides.remote.len());
        let all = block.saturating_mul(theirs);
        let role = Role::of(self.root);
        let given = || end(&self.given_blocks(collective, view), theirs);
        let taken = || end(&self.taken_blocks(collective, view), theirs);
        // What is read of the send buffer and what is done to the receive buffer: at a root, and at others.
        let (at_root, elsewhere) = match collective {
            Collective::Bcast => ((0, block), (0, block)),
            Collective::Reduce => ((0, block), (block, 0)),
            Collective::Gather => ((0, all), (block, 0)),
            Collective::Gatherv if role == Role::Root => ((0, taken()), (0, 0)),
            Collective::Gatherv => ((0, 0), (block, 0)),
            Collective::Scatter => ((all, 0), (0, block)),
            Collective::Scatterv if role == Role::Root => ((given(), 0), (0, 0)),
            Collective::Scatterv => ((0, 0), (0, block)),
            Collective::Allreduce => ((0, 0), (block, block)),
            Collective::Allgather => ((0, 0), (block, all)),
            Collective::Allgatherv => ((0, 0), (block, taken())),
            Collective::Alltoall => ((0, 0), (all, all)),
            Collective::Alltoallv | Collective::Alltoallw => ((0, 0), (given(), taken())),
            Collective::ReduceScatter => {
                let size = self.datatype.size();
                let total = self.total(view.size).saturating_mul(size);
                (
                    (0, 0),
                    (total, self.count_of(view.rank).saturating_mul(size)),
                )
            }
            _ => ((0, 0), (0, 0)),
        };
        let (send, recv) = match role {
            Role::Root if collective.is_rooted() => at_root,
            Role::Idle if collective.is_rooted() => (0, 0),
            _ => elsewhere,
        };
        let reads = collective == Collective::Bcast && role == Role::Root;
        Span {
            send,
            recv,
            reads,
            writes: recv > 0 && !reads,
        }
    }

    /// Whether a rank needs a send buffer and a receive buffer, or what is wrong. Nothing is in place.
    pub(super) fn check_inter(
        &self,
        collective: Collective,
        view: &View<'_>,
        sides: &Sides,
    ) -> Result<(bool, bool), String> {
        if matches!(collective, Collective::Scan | Collective::Exscan) {
            return Err(
                "it is not defined on an intercommunicator, whose ranks have no one order"
                    .to_owned(),
            );
        }
        if !self.counts.is_empty() && self.counts.len() != view.size {
            let (found, size) = (self.counts.len(), view.size);
            return Err(format!("{found} counts for {size} ranks"));
        }
        let most = view.size.max(sides.remote.len());
        let elements = match self.counts {
            [] => self.count.checked_mul(most),
            counts => counts
                .iter()
                .try_fold(0usize, |sum, count| sum.checked_add(*count)),
        };
        let bytes = elements.and_then(|elements| elements.checked_mul(self.datatype.size()));
        if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
            return Err(format!("no buffer has blocks of {} elements", self.count));
        }
        let theirs = sides.remote.len();
        let typed = collective == Collective::Alltoallw;
        let sends = || {
            let list = &self.send_blocks;
            list.check(("send", false), self.datatype, (theirs, typed))
        };
        let receives = || {
            let list = &self.recv_blocks;
            list.check(("receive", true), self.datatype, (theirs, typed))
        };
        let (own, root) = (self.count > 0, Role::of(self.root) == Role::Root);
        Ok(match collective {
            Collective::Bcast => (false, own),
            Collective::Reduce | Collective::Gather => (own && !root, own && root),
            Collective::Scatter => (own && root, own && !root),
            Collective::Gatherv if root => {
                receives()?;
                (false, some(&self.recv_blocks))
            }
            Collective::Gatherv => (own, false),
            Collective::Scatterv if root => {
                sends()?;
                (some(&self.send_blocks), false)
            }
            Collective::Scatterv => (false, own),
            Collective::Allgatherv => {
                receives()?;
                (own, some(&self.recv_blocks))
            }
            Collective::Alltoallv | Collective::Alltoallw => {
                sends()?;
                receives()?;
                (some(&self.send_blocks), some(&self.recv_blocks))
            }
            Collective::ReduceScatter => (self.total(view.size) > 0, self.count_of(view.rank) > 0),
            _ => (own, own),
        })
    }
}
