//! A communicator as one of its ranks sees it: the ranks that its collectives reach and their root. For neighbourhood
//! collectives also their blocks, and the check of their arguments.

use super::args::{CollArgs, Collective, Span};
use crate::comm::Topology;
use crate::schedule::{Extent, Extents};

/// A communicator as one of its ranks sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) topology: Option<&'a Topology>,
}

impl<'a> View<'a> {
    /// The ranks that a neighbourhood collective's send blocks are for.
    fn destinations(&self) -> &'a [Option<usize>] {
        self.topology.map_or(&[], Topology::destinations)
    }

    /// The ranks that its receive blocks are from.
    fn sources(&self) -> &'a [Option<usize>] {
        self.topology.map_or(&[], Topology::sources)
    }

    /// Whether this rank is the root that it names.
    #[inline]
    pub(crate) fn is_root(&self, root: usize) -> bool {
        root == self.rank
    }

    /// Says what is wrong with a root.
    pub(super) fn check_root(&self, root: usize) -> Result<(), String> {
        let size = self.size;
        match root < size {
            true => Ok(()),
            false => Err(format!("no root {root} in a communicator of {size} ranks")),
        }
    }

    /// Blocks of a send buffer with lists.
    pub(crate) fn given(&self, collective: Collective) -> usize {
        match collective.is_neighbor() {
            true => self.destinations().len(),
            false => self.size,
        }
    }

    /// Blocks of a receive buffer with lists.
    pub(crate) fn taken(&self, collective: Collective) -> usize {
        match collective.is_neighbor() {
            true => self.sources().len(),
            false => self.size,
        }
    }
}

/// Blocks for neighbours, those of neighbours that are not there of no bytes.
fn of_neighbours(neighbours: &[Option<usize>], all: &Extents) -> Extents {
    let blocks = neighbours.iter().enumerate();
    let blocks = blocks.map(|(index, neighbour)| {
        let block = all.of(index);
        match neighbour {
            Some(_) => block,
            None => Extent { len: 0, ..block },
        }
    });
    Extents::Listed(blocks.collect())
}

impl CollArgs<'_> {
    /// The blocks that a rank's neighbours get; of arguments that were checked.
    pub(super) fn given_to_neighbours(&self, collective: Collective, view: &View<'_>) -> Extents {
        let all = match collective {
            Collective::NeighborAllgather | Collective::NeighborAllgatherv => {
                let whole = Extent {
                    offset: 0,
                    len: self.block(),
                };
                Extents::Listed(vec![whole; view.destinations().len()])
            }
            Collective::NeighborAlltoall => Extents::Even(self.block()),
            _ => self.send_blocks.extents(self.datatype),
        };
        of_neighbours(view.destinations(), &all)
    }

    /// The blocks that a rank gets of its neighbours; of arguments that were checked.
    pub(super) fn taken_of_neighbours(&self, collective: Collective, view: &View<'_>) -> Extents {
        let all = match collective {
            Collective::NeighborAllgather | Collective::NeighborAlltoall => {
                Extents::Even(self.block())
            }
            _ => self.recv_blocks.extents(self.datatype),
        };
        of_neighbours(view.sources(), &all)
    }

    /// What a rank does with its buffers; of arguments that were checked.
    pub(super) fn neighbours_span(&self, collective: Collective, view: &View<'_>) -> Span {
        let end = |blocks: Extents, count: usize| {
            let blocks = (0..count).map(|index| blocks.of(index));
            let ends = blocks.filter(|block| block.len > 0).map(Extent::end);
            ends.max().unwrap_or(0)
        };
        let (given, taken) = (view.given(collective), view.taken(collective));
        Span {
            send: end(self.given_to_neighbours(collective, view), given),
            recv: end(self.taken_of_neighbours(collective, view), taken),
            reads: false,
            writes: true,
        }
    }

    /// Whether a rank needs a send buffer and a receive buffer, or what is wrong.
    pub(super) fn check_neighbours(
        &self,
        collective: Collective,
        view: &View<'_>,
    ) -> Result<(bool, bool), String> {
        let Some(topology) = view.topology else {
            return Err("its communicator was made without a topology".to_owned());
        };
        let (given, taken) = (view.given(collective), view.taken(collective));
        let typed = collective == Collective::NeighborAlltoallw;
        let has_lists = match collective {
            Collective::NeighborAllgather | Collective::NeighborAlltoall => [false; 2],
            Collective::NeighborAllgatherv => [false, true],
            _ => [true; 2],
        };
        let bytes = self.count.checked_mul(self.datatype.size());
        let bytes = bytes.and_then(|bytes| bytes.checked_mul(given.max(taken).max(1)));
        if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
            return Err(format!("no buffer has blocks of {} elements", self.count));
        }
        if has_lists[0] {
            let list = &self.send_blocks;
            list.check(("send", false), self.datatype, (given, typed))?;
        }
        if has_lists[1] {
            // What no neighbour sends may lie anywhere.
            let list = &self.recv_blocks;
            list.check(("receive", false), self.datatype, (taken, typed))?;
            self.taken_of_neighbours(collective, view).apart()?;
        }
        self.check_own_edges(collective, view, topology)?;
        let span = self.neighbours_span(collective, view);
        Ok((span.send > 0, span.recv > 0))
    }

    /// Refuses blocks of different sizes that a rank gives to itself and takes from itself.
    fn check_own_edges(
        &self,
        collective: Collective,
        view: &View<'_>,
        topology: &Topology,
    ) -> Result<(), String> {
        let given = self.given_to_neighbours(collective, view);
        let taken = self.taken_of_neighbours(collective, view);
        for (to, from) in topology.own_edges(view.rank) {
            let (out, into) = (given.of(to).len, taken.of(from).len);
            if out != into {
                let rank = view.rank;
                return Err(format!(
                    "rank {rank} gives itself {out} B in block {to} and takes {into} B of itself in block {from}"
                ));
            }
        }
        Ok(())
    }
}
