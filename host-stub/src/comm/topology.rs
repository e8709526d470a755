//! Topologies: whom the ranks of a communicator exchange data with in neighbourhood collectives.

use std::collections::BTreeMap;

use super::cartesian::Cartesian;
use super::communicator::Comm;
use super::creation::{Wish, lost};
use super::error::{CommError, CommResult};
use super::placement::by_node;

/// The neighbours of one rank. The buffers of neighbourhood collectives have a block for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    grid: Option<Cartesian>,
    sources: Vec<Option<usize>>,
    destinations: Vec<Option<usize>>,
}

impl Topology {
    fn of_grid(grid: Cartesian, rank: usize) -> CommResult<Topology> {
        let neighbours = grid.neighbours(rank)?;
        Ok(Topology {
            grid: Some(grid),
            sources: neighbours.clone(),
            destinations: neighbours,
        })
    }

    /// The grid in which the ranks lie; none for a graph.
    pub fn grid(&self) -> Option<&Cartesian> {
        self.grid.as_ref()
    }

    /// The ranks that this one receives from; none beyond an open border of a grid. A rank may be there
    /// more than once.
    pub fn sources(&self) -> &[Option<usize>] {
        &self.sources
    }

    /// The ranks that this one sends to, likewise.
    pub fn destinations(&self) -> &[Option<usize>] {
        &self.destinations
    }

    /// The sources in the order in which a rank that is there more than once sends its blocks. In a grid what
    /// is sent forwards arrives from behind (MPI 4.1, 8.6), also where both neighbours of a dimension are one
    /// rank.
    pub(crate) fn arrivals(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let crossed = usize::from(self.grid.is_some());
        (0..self.sources.len()).filter_map(move |at| {
            let block = at ^ crossed;
            Some((block, self.sources[block]?))
        })
    }

    /// The destinations in the order in which blocks are sent.
    pub(crate) fn departures(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let all = self.destinations.iter().enumerate();
        all.filter_map(|(block, to)| Some((block, (*to)?)))
    }

    /// The send block and the receive block of each edge of a rank to itself.
    pub(crate) fn own_edges(&self, rank: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let out = self.departures().filter(move |(_, to)| *to == rank);
        let into = self.arrivals().filter(move |(_, from)| *from == rank);
        out.zip(into).map(|((to, _), (from, _))| (to, from))
    }
}

impl Comm {
    /// A communicator whose ranks lie in a grid (MPI_Cart_create): `dims` ranks in each dimension, the last
    /// of which is followed by the first where it is periodic. None for ranks that the grid has no place
    /// for. With `reorder`, ranks may have other numbers: each node gets a block of the grid where that is
    /// possible. Without, they are the ranks here. Collective, with the same arguments at every rank.
    pub fn cartesian(
        &self,
        dims: &[usize],
        periods: &[bool],
        reorder: bool,
    ) -> CommResult<Option<Comm>> {
        let call = "cartesian";
        let grid = match Cartesian::new(dims, periods, self.size()) {
            Ok(grid) => grid,
            Err(refusal) => {
                return self.make(
                    call,
                    Wish {
                        refusal,
                        ..Wish::default()
                    },
                );
            }
        };
        let terms = Terms::Grid(&grid, reorder).encode();
        let order = match reorder {
            true => {
                let nodes: CommResult<Vec<u32>> = (0..self.size()).map(|r| self.node(r)).collect();
                by_node(&grid, &nodes?)
            }
            false => (0..grid.size()).collect(),
        };
        let place = order.iter().position(|rank| *rank == self.rank());
        let topology = place.map(|place| Topology::of_grid(grid, place));
        self.make(
            call,
            Wish {
                color: place.map(|_| 0),
                key: place.unwrap_or(0) as i64,
                terms,
                topology: topology.transpose()?,
                ..Wish::default()
            },
        )
    }

    /// A communicator of the same ranks, of which each names those that it receives from and those that it
    /// sends to (MPI_Dist_graph_create_adjacent). A rank may be named more than once, and may name itself; each
    /// names as many edges from another as that one names to it. Collective.
    pub fn graph_adjacent(&self, sources: &[usize], destinations: &[usize]) -> CommResult<Comm> {
        let call = "graph_adjacent";
        let mut all = sources.iter().chain(destinations);
        let refusal = match all.find(|rank| **rank >= self.size()) {
            Some(stranger) => {
                let size = self.size();
                format!("no rank {stranger} in a communicator of {size} ranks")
            }
            None => String::new(),
        };
        let some = |ranks: &[usize]| ranks.iter().copied().map(Some).collect();
        let made = self.make(
            call,
            Wish {
                color: Some(0),
                refusal,
                terms: Terms::Edges(sources, destinations).encode(),
                topology: Some(Topology {
                    grid: None,
                    sources: some(sources),
                    destinations: some(destinations),
                }),
                ..Wish::default()
            },
        )?;
        made.ok_or_else(|| lost(call))
    }
}

/// What a rank tells the others of the topology that it wants.
enum Terms<'a> {
    Grid(&'a Cartesian, bool),
    Edges(&'a [usize], &'a [usize]),
}

const GRID: u64 = 1;
const EDGES: u64 = 2;

impl Terms<'_> {
    /// The kind, then words.
    fn encode(&self) -> Vec<u8> {
        let mut words = Vec::new();
        let mut add = |word: usize| words.extend((word as u64).to_le_bytes());
        match self {
            Terms::Grid(grid, reorder) => {
                add(GRID as usize);
                add(usize::from(*reorder));
                grid.dims().iter().for_each(|dim| add(*dim));
                grid.periods().iter().for_each(|one| add(usize::from(*one)));
            }
            Terms::Edges(sources, destinations) => {
                add(EDGES as usize);
                add(sources.len());
                sources
                    .iter()
                    .chain(*destinations)
                    .for_each(|rank| add(*rank));
            }
        }
        words
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.as_chunks::<8>().0.iter();
    words.map(|word| u64::from_le_bytes(*word)).collect()
}

/// Compares what all ranks want; the same outcome at each.
pub(super) fn agreed(all: &[&[u8]]) -> CommResult<()> {
    let refuse = |rank: usize, reason: String| Err(CommError::Creation { rank, reason });
    let kind = |terms: &[u8]| words(terms).first().copied().unwrap_or(0);
    let name = |kind: u64| match kind {
        GRID => "a grid",
        EDGES => "a graph",
        _ => "no topology",
    };
    let wanted = kind(all[0]);
    for (rank, terms) in all.iter().enumerate() {
        let found = kind(terms);
        if found != wanted {
            let (found, wanted) = (name(found), name(wanted));
            return refuse(rank, format!("it wants {found}, rank 0 wants {wanted}"));
        }
        if wanted == GRID && *terms != all[0] {
            return refuse(
                rank,
                "its dimensions, periods or reorder are not those of rank 0".to_owned(),
            );
        }
    }
    if wanted == EDGES {
        return one_end_each(all);
    }
    Ok(())
}

/// Makes sure that both ends of each edge know it.
fn one_end_each(all: &[&[u8]]) -> CommResult<()> {
    // From, to: how often it is named at its beginning, and at its end.
    let mut edges: BTreeMap<(u64, u64), (usize, usize)> = BTreeMap::new();
    for (rank, terms) in all.iter().enumerate() {
        let words = words(terms);
        let ends = words.get(2..).unwrap_or_default();
        let sources = words.get(1).map_or(0, |count| *count as usize);
        for (index, other) in ends.iter().enumerate() {
            if index < sources {
                edges.entry((*other, rank as u64)).or_default().1 += 1;
            } else {
                edges.entry((rank as u64, *other)).or_default().0 += 1;
            }
        }
    }
    match edges.into_iter().find(|(_, (out, into))| out != into) {
        None => Ok(()),
        Some(((from, to), (out, into))) => Err(CommError::Creation {
            rank: from as usize,
            reason: format!(
                "it names rank {to} {out} times among its destinations, which names it {into} times among its \
                 sources"
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_name_an_edge() {
        let terms = |edges: &[(&[usize], &[usize])]| -> Vec<Vec<u8>> {
            let each = edges.iter();
            each.map(|(from, to)| Terms::Edges(from, to).encode())
                .collect()
        };
        let said = |terms: Vec<Vec<u8>>| {
            let all: Vec<&[u8]> = terms.iter().map(Vec::as_slice).collect();
            agreed(&all).map_err(|error| error.to_string())
        };
        assert_eq!(said(terms(&[(&[1, 1, 0], &[0]), (&[], &[0, 0])])), Ok(()));
        let wrong = said(terms(&[(&[1, 1], &[]), (&[], &[0])])).unwrap_err();
        assert!(
            wrong.contains("on rank 1") && wrong.contains("rank 0 1 times"),
            "{wrong}"
        );
        let wrong = said(terms(&[(&[], &[]), (&[0], &[])])).unwrap_err();
        assert!(
            wrong.contains("on rank 0") && wrong.contains("rank 1 0 times"),
            "{wrong}"
        );
        let grid = Cartesian::new(&[2], &[true], 2).unwrap();
        let (row, open) = (
            Terms::Grid(&grid, false).encode(),
            Terms::Grid(&grid, true).encode(),
        );
        assert_eq!(said(vec![row.clone(), row.clone()]), Ok(()));
        assert!(said(vec![row.clone(), open]).is_err());
        assert!(said(vec![row, Vec::new()]).is_err());
    }

    #[test]
    fn what_leaves_forwards_arrives_from_behind() {
        let grid = Cartesian::new(&[2, 3], &[true, false], 6).unwrap();
        let topology = Topology::of_grid(grid, 0).unwrap();
        assert_eq!(topology.sources(), [Some(3), Some(3), None, Some(1)]);
        assert_eq!(
            topology.departures().collect::<Vec<_>>(),
            [(0, 3), (1, 3), (3, 1)]
        );
        assert_eq!(
            topology.arrivals().collect::<Vec<_>>(),
            [(1, 3), (0, 3), (3, 1)]
        );
    }
}
