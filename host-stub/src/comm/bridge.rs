//! How two groups tell each other things while they have no communicator in common: the ranks of each group tell each
//! other, its leader tells the other leader, and hands on what it is told.

use std::sync::Arc;

use super::communicator::Comm;
use super::context::Turn;
use super::error::{CommError, CommResult};
use super::exchange::exchange;
use crate::schedule::Scope;

/// Two leaders.
pub(super) struct Pair {
    /// Both, in the context of a communicator that they have in common.
    pub(super) scope: Arc<Scope>,
    /// What tells their messages from those of others there.
    pub(super) tag: u32,
}

/// A way to another group.
pub(super) struct Bridge<'c> {
    comm: &'c Comm,
    leader: usize,
    /// At the leader.
    pair: Option<Pair>,
    /// The job ranks of the other group.
    pub(super) remote: Vec<u32>,
    /// That of the leaders' messages, the same at every rank of both groups.
    pub(super) turn: Turn,
}

/// What a rank tells its group of the leaders' first meeting.
enum Met {
    /// It is no leader.
    Not,
    /// The turn, and the job ranks of the other group.
    Group(Turn, Vec<u32>),
    Failed(String),
}

impl<'c> Bridge<'c> {
    /// Collective over the group, and the other group. `pair` is there at the rank that is `leader` by its own word.
    pub(super) fn build(
        comm: &'c Comm,
        leader: usize,
        pair: Result<Option<Pair>, String>,
    ) -> CommResult<Bridge<'c>> {
        // The leaders first: what they cannot agree on, a rank in both groups may hear in either.
        let (pair, met) = match pair {
            Ok(None) => (None, Met::Not),
            Err(reason) => (None, Met::Failed(reason)),
            Ok(Some(pair)) => match pair.meet(comm) {
                Ok(remote) => {
                    let turn = Turn::of_some(pair.scope.context(), pair.tag);
                    (Some(pair), Met::Group(turn, remote))
                }
                Err(reason) => (None, Met::Failed(reason)),
            },
        };
        let agreed = comm
            .exchange(&encode(leader, &met))
            .and_then(|all| decide(&all));
        match agreed {
            Ok((turn, remote)) => Ok(Bridge {
                comm,
                leader,
                pair,
                remote,
                turn,
            }),
            Err(error) => {
                // The other leader waits for this one.
                if let Some(pair) = &pair {
                    let _ = pair.tell(comm, &Err(error.to_string()));
                }
                Err(error)
            }
        }
    }

    /// Gives every rank of both groups what each gave, those of the first group first; collective over both.
    pub(super) fn exchange(&self, data: &[u8], is_first: bool) -> CommResult<Vec<Vec<u8>>> {
        let mine = self.comm.exchange(data);
        let told = self.pair.as_ref().map(|pair| {
            // A failure too: the other group would wait.
            let said = mine.as_ref().map(|all| pack(all));
            pair.tell(self.comm, &said.map_err(ToString::to_string))
        });
        let mine = mine?;
        let told = match told {
            Some(Ok(told)) => told,
            Some(Err(error)) => outcome(&Err(error.to_string())),
            None => Vec::new(),
        };
        let mut all = self.comm.exchange(&told)?;
        let refuse = |reason: String| CommError::Creation {
            rank: self.leader,
            reason,
        };
        let told = std::mem::take(&mut all[self.leader]);
        let theirs = match told.split_first() {
            Some((0, packed)) => unpack(packed).ok_or_else(|| {
                refuse(format!(
                    "its other leader sent {} B of nonsense",
                    told.len()
                ))
            }),
            Some((_, text)) => Err(refuse(format!(
                "from the other group: {}",
                String::from_utf8_lossy(text)
            ))),
            None => Err(refuse("it has told its group nothing".to_owned())),
        }?;
        if theirs.len() != self.remote.len() {
            let (ranks, wanted) = (theirs.len(), self.remote.len());
            return Err(refuse(format!(
                "{ranks} ranks of the other group spoke, of {wanted}"
            )));
        }
        Ok(match is_first {
            true => [mine, theirs].concat(),
            false => [theirs, mine].concat(),
        })
    }
}

impl Pair {
    /// Tells the other leader, and gives what it says.
    fn swap(&self, comm: &Comm, data: &[u8]) -> CommResult<Vec<u8>> {
        let engine = comm.any_engine("intercommunicator")?;
        let mut all = exchange(comm.job(), engine, &self.scope, Some(self.tag), data)?;
        Ok(all.swap_remove(1 - self.scope.rank()))
    }

    /// The job ranks of the other group; why not, where both leaders know it.
    fn meet(&self, comm: &Comm) -> Result<Vec<u32>, String> {
        let mine = comm.members();
        let bytes: Vec<u8> = mine.iter().flat_map(|rank| rank.to_le_bytes()).collect();
        let theirs = self.swap(comm, &bytes).map_err(|error| error.to_string())?;
        let theirs = ranks(&theirs);
        match theirs.iter().find(|rank| mine.contains(rank)) {
            Some(both) => Err(format!("job rank {both} is in both groups")),
            None if theirs.is_empty() => Err("the other group has no ranks".to_owned()),
            None => Ok(theirs),
        }
    }

    /// Tells the other leader what this group says, or why it cannot go on.
    fn tell(&self, comm: &Comm, said: &Result<Vec<u8>, String>) -> CommResult<Vec<u8>> {
        self.swap(comm, &outcome(said))
    }
}

/// 0 and bytes, or 1 and the reason.
fn outcome(said: &Result<Vec<u8>, String>) -> Vec<u8> {
    match said {
        Ok(bytes) => [&[0], bytes.as_slice()].concat(),
        Err(reason) => [&[1], reason.as_bytes()].concat(),
    }
}

fn ranks(bytes: &[u8]) -> Vec<u32> {
    let words = bytes.as_chunks::<4>().0.iter();
    words.map(|word| u32::from_le_bytes(*word)).collect()
}

/// Blocks of any lengths as one.
fn pack(all: &[Vec<u8>]) -> Vec<u8> {
    let blocks = all.iter();
    blocks
        .flat_map(|block| [&(block.len() as u64).to_le_bytes(), block.as_slice()].concat())
        .collect()
}

fn unpack(mut packed: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    while let Some((len, rest)) = packed.split_first_chunk::<8>() {
        let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
        let (block, rest) = rest.split_at_checked(len)?;
        all.push(block.to_vec());
        packed = rest;
    }
    packed.is_empty().then_some(all)
}

/// leader (8), what follows (1): nothing, turn (8) and ranks (4 each), or a reason.
fn encode(leader: usize, met: &Met) -> Vec<u8> {
    let mut bytes = (leader as u64).to_le_bytes().to_vec();
    match met {
        Met::Not => bytes.push(0),
        Met::Group(turn, remote) => {
            bytes.push(1);
            bytes.extend(turn.to_bytes());
            bytes.extend(remote.iter().flat_map(|rank| rank.to_le_bytes()));
        }
        Met::Failed(reason) => {
            bytes.push(2);
            bytes.extend(reason.as_bytes());
        }
    }
    bytes
}

fn decode(bytes: &[u8]) -> Option<(u64, Met)> {
    let (leader, rest) = bytes.split_first_chunk::<8>()?;
    let met = match rest.split_first()? {
        (0, []) => Met::Not,
        (1, rest) => {
            let (turn, rest) = rest.split_first_chunk()?;
            Met::Group(Turn::from_bytes(*turn), ranks(rest))
        }
        (2, reason) => Met::Failed(String::from_utf8_lossy(reason).into_owned()),
        _ => return None,
    };
    Some((u64::from_le_bytes(*leader), met))
}

/// What all ranks of a group have said comes to; the same at each.
fn decide(all: &[Vec<u8>]) -> CommResult<(Turn, Vec<u32>)> {
    let refuse = |rank: usize, reason: String| CommError::Creation { rank, reason };
    let mut found = None;
    let mut first = None;
    for (rank, bytes) in all.iter().enumerate() {
        let (leader, met) = decode(bytes).ok_or_else(|| {
            let len = bytes.len();
            refuse(
                rank,
                format!("it sent {len} B that say nothing of a leader"),
            )
        })?;
        let wanted = *first.get_or_insert(leader);
        if leader != wanted {
            return Err(refuse(
                rank,
                format!("it names rank {leader} as leader, rank 0 names rank {wanted}"),
            ));
        }
        match met {
            Met::Not => {}
            Met::Group(turn, remote) => found = Some((turn, remote)),
            Met::Failed(reason) => return Err(refuse(rank, reason)),
        }
    }
    found.ok_or_else(|| {
        // Negative in C.
        let (leader, size) = (first.unwrap_or(0) as i64, all.len());
        refuse(0, format!("no leader {leader} in a group of {size} ranks"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_blocks_come_back() {
        let all = vec![vec![1, 2, 3], Vec::new(), vec![9]];
        assert_eq!(unpack(&pack(&all)), Some(all.clone()));
        assert_eq!(unpack(&[]), Some(Vec::new()));
        assert_eq!(unpack(&pack(&all)[..10]), None);
        assert_eq!(unpack(&[1, 2]), None);
    }

    #[test]
    fn a_group_has_one_leader() {
        let said = |leaders: &[(usize, Met)]| {
            let all: Vec<_> = leaders.iter().map(|(at, met)| encode(*at, met)).collect();
            decide(&all).map_err(|error| error.to_string())
        };
        let turn = Turn::of_some(7, 9);
        let group = || Met::Group(turn, vec![3, 1]);
        assert_eq!(said(&[(1, Met::Not), (1, group())]), Ok((turn, vec![3, 1])));
        let wrong = said(&[(0, group()), (1, group())]).unwrap_err();
        assert!(
            wrong.contains("rank 1 as leader, rank 0 names rank 0"),
            "{wrong}"
        );
        let wrong = said(&[(5, Met::Not), (5, Met::Not)]).unwrap_err();
        assert!(wrong.contains("no leader 5 in a group of 2"), "{wrong}");
        let wrong = said(&[(0, Met::Failed("lost".to_owned())), (0, Met::Not)]).unwrap_err();
        assert!(wrong.contains("lost"), "{wrong}");
    }
}
