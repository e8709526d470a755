//! Intercommunicators: two groups whose collectives go from one to the other (MPI 4.1, 7.6).

use std::ops::Range;
use std::sync::Arc;

use super::bridge::{Bridge, Pair};
use super::communicator::Comm;
use super::creation::{Wish, lost};
use super::error::{CommError, CommResult};
use super::group::Group;
use crate::mailbox::Header;
use crate::schedule::Scope;

/// Where the two groups of an intercommunicator lie among the ranks of its scope, which has those of one group and
/// then those of the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sides {
    /// This rank's group.
    pub(crate) local: Range<usize>,
    /// The other.
    pub(crate) remote: Range<usize>,
}

impl Sides {
    /// Those of groups of so many ranks.
    fn of(local: usize, remote: usize, is_first: bool) -> Sides {
        match is_first {
            true => Sides {
                local: 0..local,
                remote: local..local + remote,
            },
            false => Sides {
                local: remote..remote + local,
                remote: 0..remote,
            },
        }
    }
}

impl Comm {
    /// An intercommunicator of the ranks here and those of another group, which calls alike
    /// (MPI_Intercomm_create). `leader` is the rank here that finds the other group: it alone gives `peer`, a
    /// communicator with both leaders in it, and the rank of the other leader there. Leaders that make several at the
    /// same time over one `peer` tell them apart by `tag`, which is below 2^24. No process is in both groups.
    /// Collective over both groups.
    ///
    /// # Errors
    /// [`CommError::Creation`] at all ranks of both groups, once the leaders have found each other. Before that at
    /// all ranks of the group whose leader cannot go on; the other group then waits for it.
    pub fn intercommunicator(
        &self,
        leader: usize,
        peer: Option<(&Comm, usize)>,
        tag: u32,
    ) -> CommResult<Comm> {
        let call = "intercommunicator";
        let _entered = self.job().runtime().enter(call)?;
        self.engine(call)?;
        self.intra(call)?;
        let pair = match self.rank() == leader {
            true => self.pair(peer, tag).map(Some),
            false => Ok(None),
        };
        let bridge = Bridge::build(self, leader, pair)?;
        let (mine, theirs) = (self.members(), &bridge.remote);
        let is_first = mine[0] < theirs[0];
        let union = match is_first {
            true => [mine, theirs].concat(),
            false => [theirs, mine].concat(),
        };
        let sides = Sides::of(mine.len(), theirs.len(), is_first);
        let me = sides.local.start + self.rank();
        let wish = Wish {
            color: Some(0),
            sides: Some(sides),
            ..Wish::default()
        };
        let scope = Scope::in_context_of(union, me, self.context());
        let made = self.agree(&scope, wish, bridge.turn, |data| {
            bridge.exchange(data, is_first)
        })?;
        made.ok_or_else(|| lost(call))
    }

    /// This leader and the other.
    fn pair(&self, peer: Option<(&Comm, usize)>, tag: u32) -> Result<Pair, String> {
        let Some((peer, rank)) = peer else {
            return Err("it is the leader and gives no peer communicator".to_owned());
        };
        let usable = peer
            .engine("intercommunicator")
            .and_then(|_| peer.intra("intercommunicator"));
        usable.map_err(|error| format!("its peer communicator is of no use: {error}"))?;
        let other = peer
            .job_rank(rank)
            // Negative in C.
            .map_err(|_| {
                format!(
                    "no remote leader {} among {} ranks",
                    rank as isize,
                    peer.size()
                )
            })?;
        if self.members().contains(&other) {
            return Err(format!(
                "its remote leader, job rank {other}, is in its own group"
            ));
        }
        if tag >= Header::SEQUENCES {
            return Err(format!("tag {tag} has more than 24 bits"));
        }
        let mine = self.job().rank();
        let both = vec![mine.min(other), mine.max(other)];
        let me = usize::from(mine > other);
        Ok(Pair {
            scope: Arc::new(Scope::in_context_of(both, me, peer.context())),
            tag,
        })
    }

    /// A communicator of both groups of an intercommunicator: the ranks of the group that says `high` come last. Where
    /// both say the same, those whose first process has the lower job rank come first (MPI_Intercomm_merge).
    /// Collective over both groups; all ranks of a group say the same.
    pub fn merge(&self, high: bool) -> CommResult<Comm> {
        let call = "merge";
        let Some(sides) = self.sides() else {
            return Err(CommError::BadArgument {
                call,
                reason: "it is no intercommunicator".to_owned(),
            });
        };
        let all = self.exchange(&[u8::from(high)])?;
        let split = sides.local.start.max(sides.remote.start);
        for side in [0..split, split..all.len()] {
            let first = &all[side.start];
            if let Some(rank) = side.clone().find(|rank| all[*rank] != *first) {
                return Err(CommError::Creation {
                    rank,
                    reason: format!(
                        "it says that its group comes {}, and rank {} of that group says otherwise",
                        if all[rank] == [1] { "last" } else { "first" },
                        side.start
                    ),
                });
            }
        }
        let wish = Wish {
            color: Some(0),
            key: i64::from(high),
            ..Wish::default()
        };
        self.make_of_all(call, wish)?.ok_or_else(|| lost(call))
    }

    /// Whether it is an intercommunicator: then [`rank`](Self::rank), [`size`](Self::size) and [`group`](Self::group)
    /// are those of this rank's group, and collectives go from one group to the other.
    pub fn is_inter(&self) -> bool {
        self.sides().is_some()
    }

    /// Ranks of the other group of an intercommunicator; 0 for any other.
    pub fn remote_size(&self) -> usize {
        self.sides().map_or(0, |sides| sides.remote.len())
    }

    /// The other group of an intercommunicator.
    pub fn remote_group(&self) -> Option<Group> {
        let sides = self.sides()?;
        let members = &self.scope().members()[sides.remote.clone()];
        Some(Group::of_members(members))
    }

    /// Refuses what is for one group only.
    pub(super) fn intra(&self, call: &'static str) -> CommResult<()> {
        match self.is_inter() {
            false => Ok(()),
            true => Err(CommError::BadArgument {
                call,
                reason:
                    "it is an intercommunicator; merge it, or take the communicator of one group"
                        .to_owned(),
            }),
        }
    }
}
