//! Creation of communicators.

use std::sync::Arc;

use super::communicator::{Comm, Ranks};
use super::context::Turn;
use super::error::{CommError, CommResult};
use super::exchange::exchange;
use super::registry::{Defaults, Registry};
use crate::job::Job;

/// The color of ranks that want no new communicator.
pub const UNDEFINED: Option<u32> = None;

/// A rank's contribution to the creation of communicators, and its data of the communicator that it
/// will get.
#[derive(Default)]
pub(super) struct Wish {
    pub(super) color: Option<u32>,
    pub(super) key: i64,
    /// The reason why this rank cannot take part; empty if it can.
    pub(super) refusal: String,
}

impl Comm {
    /// The communicator of all ranks of the job. The first call makes the communicator, with these
    /// defaults.
    pub(crate) fn world_over(job: &Arc<Job>, defaults: &Defaults) -> CommResult<Comm> {
        let registry = Registry::of(job);
        registry.world(job, defaults, || {
            let members: Vec<u32> = (0..job.size()).collect();
            let table = registry.tables.base_of(defaults.functions);
            let ranks = Ranks {
                members,
                me: job.rank() as usize,
            };
            let world = Comm::bare(job, table, ranks, 0);
            let seen = registry.hooks.snapshot();
            world.compare_layers(&seen.shape())?;
            world.complete(seen)
        })
    }

    /// Makes a communicator with the same ranks and another context. Collective.
    pub fn dup(&self) -> CommResult<Comm> {
        let made = self.make(
            "dup",
            Wish {
                color: Some(0),
                ..Wish::default()
            },
        )?;
        made.ok_or_else(|| lost("dup"))
    }

    /// Makes a communicator for each color. The ranks of a new communicator are ordered by their keys; for equal keys, by
    /// their ranks here. Ranks with the color [`UNDEFINED`] get `None`. Collective.
    pub fn split(&self, color: Option<u32>, key: i64) -> CommResult<Option<Comm>> {
        self.make(
            "split",
            Wish {
                color,
                key,
                ..Wish::default()
            },
        )
    }

    /// A communicator for each node (MPI_Comm_split_type with MPI_COMM_TYPE_SHARED). Collective.
    pub fn split_by_node(&self, key: i64) -> CommResult<Comm> {
        let node = self.node(self.rank())?;
        self.split(Some(node), key)?
            .ok_or_else(|| lost("split_by_node"))
    }

    /// Makes a communicator of some ranks of this communicator, in the given order; other ranks get
    /// `None`. Collective over this communicator. Either every rank passes the same ranks, or each
    /// of several disjoint groups is passed by its own ranks. Invalid ranks are an error at all ranks.
    pub fn create(&self, ranks: &[usize]) -> CommResult<Option<Comm>> {
        let call = "create";
        if let Some(reason) = refusal(ranks, self.size()) {
            self.refuse_creation(call, &reason)?;
            return Err(CommError::BadArgument { call, reason });
        }
        let position = ranks.iter().position(|rank| *rank == self.rank());
        self.make(
            call,
            Wish {
                // The first member identifies one of several disjoint groups.
                color: position.and_then(|_| u32::try_from(*ranks.first()?).ok()),
                key: position.unwrap_or(0) as i64,
                ..Wish::default()
            },
        )
    }

    /// Takes part in the creation of a communicator of these ranks only to refuse it. No rank gets a communicator, and the
    /// other ranks learn the reason. The call is for arguments that are invalid on this rank alone. Collective, together
    /// with the creation on the other ranks. Returns an error if the refusal could not be sent to the other ranks.
    pub fn refuse_creation(&self, call: &'static str, reason: &str) -> CommResult<()> {
        let reason = match reason {
            "" => "it refuses",
            reason => reason,
        };
        let wish = Wish {
            refusal: reason.to_owned(),
            ..Wish::default()
        };
        match self.make(call, wish) {
            Ok(_) | Err(CommError::Creation { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Agrees with the ranks of this communicator on the members and the context of new communicators, and makes
    /// this rank's communicator.
    pub(super) fn make(&self, call: &'static str, wish: Wish) -> CommResult<Option<Comm>> {
        let _entered = self.job().runtime().enter(call)?;
        let (engine, scope) = (self.engine(call)?, self.scope());
        let turn = Turn::of(self.context());
        let exchange = |data: &[u8]| exchange(self.job(), engine, scope, data);
        let registry = self.registry();
        let seen = registry.hooks.snapshot();
        let said = encode(&wish, &seen.shape());
        let wanted = wish.color.is_some();
        let agreed = registry
            .contexts
            .agree(turn, (&said, wanted), exchange, decide);
        let (mut wants, context) = agreed?;
        let Some(context) = context else {
            return Err(CommError::Creation {
                rank: scope.rank(),
                reason: "no context number is free at all ranks; free some communicators"
                    .to_owned(),
            });
        };
        if wish.color.is_none() {
            return Ok(None);
        }
        wants.retain(|want| want.0 == wish.color);
        wants.sort_by_key(|(_, key, rank)| (*key, *rank));
        let members: Vec<u32> = wants
            .iter()
            .map(|(_, _, rank)| scope.job_rank(*rank) as u32)
            .collect();
        let me = wants.iter().position(|want| want.2 == scope.rank());
        let me = me.ok_or_else(|| lost("communicator creation"))?;
        let table = registry.tables.base();
        let table = table.ok_or_else(|| lost("communicator creation"))?;
        let ranks = Ranks { members, me };
        Comm::bare(self.job(), table, ranks, context)
            .complete(seen)
            .map(Some)
    }

    /// Checks that all ranks have registered the same layers.
    fn compare_layers(&self, shape: &[u8]) -> CommResult<()> {
        let all = self.exchange(shape)?;
        same_layers(all.iter().map(Vec::as_slice))
    }
}

/// The reason why these are not the ranks of a part of a communicator of `size` ranks.
fn refusal(ranks: &[usize], size: usize) -> Option<String> {
    let mut seen = vec![false; size];
    ranks.iter().find_map(|rank| match seen.get_mut(*rank) {
        None => Some(format!("no rank {rank} in a communicator of {size}")),
        Some(true) => Some(format!("rank {rank} is in the group twice")),
        Some(seen) => {
            *seen = true;
            None
        }
    })
}

/// The error for an answer that lacks this rank.
pub(super) fn lost(call: &'static str) -> CommError {
    CommError::Job {
        call,
        reason: "the ranks' answers do not contain this one".to_owned(),
    }
}

/// A rank's request: color, key and rank.
type Want = (Option<u32>, i64, usize);

/// The format: color (8 bytes), key (8), length of the refusal (8), refusal, layers.
fn encode(wish: &Wish, layers: &[u8]) -> Vec<u8> {
    let color = wish.color.map_or(u64::MAX, u64::from);
    let mut blob = Vec::with_capacity(24 + wish.refusal.len() + layers.len());
    blob.extend_from_slice(&color.to_le_bytes());
    blob.extend_from_slice(&wish.key.to_le_bytes());
    blob.extend_from_slice(&(wish.refusal.len() as u64).to_le_bytes());
    blob.extend_from_slice(wish.refusal.as_bytes());
    blob.extend_from_slice(layers);
    blob
}

fn decide(all: &[Vec<u8>]) -> CommResult<Vec<Want>> {
    let mut wants = Vec::with_capacity(all.len());
    let mut layers = Vec::new();
    for (rank, blob) in all.iter().enumerate() {
        let short = || CommError::Creation {
            rank,
            reason: format!("it sent {} B that are no wish", blob.len()),
        };
        let word = |at: usize| {
            blob.get(at..at + 8)
                .and_then(|bytes| bytes.try_into().ok())
                .map(u64::from_le_bytes)
                .ok_or_else(short)
        };
        // A length, followed by this number of bytes.
        let part = |at: usize| {
            let len = usize::try_from(word(at)?).unwrap_or(usize::MAX);
            blob[at + 8..].split_at_checked(len).ok_or_else(short)
        };
        let (refusal, shape) = part(16)?;
        if !refusal.is_empty() {
            return Err(CommError::Creation {
                rank,
                reason: String::from_utf8_lossy(refusal).into_owned(),
            });
        }
        wants.push((u32::try_from(word(0)?).ok(), word(8)? as i64, rank));
        layers.push(shape);
    }
    same_layers(layers.into_iter())?;
    Ok(wants)
}

fn same_layers<'a>(shapes: impl Iterator<Item = &'a [u8]>) -> CommResult<()> {
    let mut first = None;
    for (rank, shape) in shapes.enumerate() {
        let first = *first.get_or_insert(shape);
        if shape != first {
            let name = |shape: &[u8]| -> Vec<u32> {
                let words = shape.as_chunks::<4>().0.iter();
                words.map(|word| u32::from_le_bytes(*word)).collect()
            };
            return Err(CommError::Creation {
                rank,
                reason: format!(
                    "it has create hooks of layers {:?}, rank 0 of {:?}; every rank registers the same",
                    name(shape),
                    name(first)
                ),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_and_ranks_that_come_twice_are_refused() {
        assert_eq!(refusal(&[2, 0], 3), None);
        assert_eq!(refusal(&[], 0), None);
        assert!(refusal(&[0, 3], 3).unwrap().contains("no rank 3"));
        assert!(refusal(&[1, 0, 1], 3).unwrap().contains("twice"));
    }
}
