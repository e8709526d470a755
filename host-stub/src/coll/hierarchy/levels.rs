//! The nodes of a communicator, and the communicators of the stages.

use std::sync::OnceLock;

use crate::coll::{CollArgs, Collective};
use crate::comm::{Comm, CommError, CommResult};

/// Where a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Its node: nodes are numbered by their lowest ranks.
    pub(super) node: usize,
    /// Its rank among those of the node.
    pub(super) local: usize,
}

/// The nodes of a communicator, the same at every rank.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Map {
    /// By rank.
    pub(super) places: Vec<Place>,
    /// The lowest rank of each node.
    pub(super) leaders: Vec<usize>,
    /// Ranks of each node.
    pub(super) sizes: Vec<usize>,
    /// Whether the ranks of each node follow each other.
    pub(super) in_order: bool,
}

impl Map {
    /// The map of ranks on these nodes; none where stages gain nothing: all ranks are on one node, or
    /// each has its own.
    pub(super) fn of(nodes: &[u32]) -> Option<Map> {
        let mut numbers: Vec<u32> = Vec::new();
        let mut map = Map {
            places: Vec::with_capacity(nodes.len()),
            leaders: Vec::new(),
            sizes: Vec::new(),
            in_order: true,
        };
        for (rank, number) in nodes.iter().enumerate() {
            let known = numbers.iter().position(|other| other == number);
            let node = known.unwrap_or(numbers.len());
            if known.is_none() {
                numbers.push(*number);
                map.leaders.push(rank);
                map.sizes.push(0);
            }
            map.in_order &= node + 1 == numbers.len();
            map.places.push(Place {
                node,
                local: map.sizes[node],
            });
            map.sizes[node] += 1;
        }
        (numbers.len() > 1 && numbers.len() < nodes.len()).then_some(map)
    }
}

/// The communicators of the stages.
pub(super) struct Stages {
    /// The ranks of this rank's node; the leader is rank 0.
    pub(super) node: Comm,
    /// The leaders, in the order of the nodes; at leaders only.
    pub(super) leaders: Option<Comm>,
}

/// What the layer keeps with a communicator.
pub(super) struct Levels {
    pub(super) map: Map,
    /// This rank's place.
    pub(super) here: Place,
    stages: OnceLock<Stages>,
}

impl Levels {
    /// What is known without communication; none where stages gain nothing.
    pub(super) fn of(comm: &Comm) -> CommResult<Option<Levels>> {
        let nodes: CommResult<Vec<u32>> = (0..comm.size()).map(|rank| comm.node(rank)).collect();
        Ok(Map::of(&nodes?).and_then(|map| {
            Some(Levels {
                here: *map.places.get(comm.rank())?,
                map,
                stages: OnceLock::new(),
            })
        }))
    }

    /// Whether stages give what the collective promises.
    pub(super) fn serves(&self, collective: Collective, args: &CollArgs<'_>) -> bool {
        match collective {
            // Operands of a node are combined first, so others between them would change places.
            Collective::Reduce | Collective::Allreduce => self.map.in_order || args.op.commutes(),
            // The blocks of a node travel as one.
            Collective::Allgather => self.map.in_order,
            _ => true,
        }
    }

    /// The communicators; made by the first call, which is collective, as all that follow it are.
    pub(super) fn stages(&self, comm: &Comm) -> CommResult<&Stages> {
        if let Some(stages) = self.stages.get() {
            return Ok(stages);
        }
        // A create hook may fail at the ranks of one node, or at the leaders, and the others do not hear of it: so every
        // rank takes part in both, and tells all how it went.
        let node = comm.split(u32::try_from(self.here.node).ok(), 0);
        let node = node.and_then(|made| made.ok_or_else(no_node));
        let leaders = comm.split((self.here.local == 0).then_some(0), 0);
        let failed = node.as_ref().err().or(leaders.as_ref().err());
        let said = failed.map_or(String::new(), ToString::to_string);
        let heard = comm.exchange(said.as_bytes())?;
        let Some(rank) = heard.iter().position(|said| !said.is_empty()) else {
            let (node, leaders) = (node?, leaders?);
            for stage in leaders.iter().chain([&node]) {
                stage.scope().set_whole(comm.scope());
            }
            return Ok(self.stages.get_or_init(|| Stages { node, leaders }));
        };
        // What was made was made at all its ranks. What fails here was logged; the reason for all of it is told.
        for made in leaders.ok().flatten().into_iter().chain(node.ok()) {
            let _ = made.end();
        }
        let reason = String::from_utf8_lossy(&heard[rank]).into_owned();
        Err(CommError::Creation { rank, reason })
    }

    /// Frees them; collective.
    pub(super) fn end(&self) -> CommResult<()> {
        let Some(stages) = self.stages.get() else {
            return Ok(());
        };
        let leaders = stages.leaders.clone().map_or(Ok(()), Comm::end);
        stages.node.clone().end().and(leaders)
    }
}

fn no_node() -> CommError {
    CommError::Job {
        call: "collective over nodes",
        reason: "the communicator of this rank's node was not made".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_numbered_by_their_lowest_ranks() {
        let map = Map::of(&[7, 7, 3, 7, 5]).expect("three nodes");
        assert_eq!(map.leaders, [0, 2, 4]);
        assert_eq!(map.sizes, [3, 1, 1]);
        assert!(!map.in_order);
        let places: Vec<_> = map.places.iter().map(|p| (p.node, p.local)).collect();
        assert_eq!(places, [(0, 0), (0, 1), (1, 0), (0, 2), (2, 0)]);
        assert!(Map::of(&[9, 9, 1, 4, 4]).expect("three nodes").in_order);
    }

    #[test]
    fn one_node_and_one_rank_on_each_have_no_stages() {
        for nodes in [&[1, 1, 1][..], &[1, 2, 3], &[1], &[]] {
            assert_eq!(Map::of(nodes), None, "{nodes:?}");
        }
    }
}
