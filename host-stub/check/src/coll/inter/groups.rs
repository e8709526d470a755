//! Groups of the world's ranks, and the intercommunicators between them.

use super::super::super::case::{Context, Failure, Outcome};
use super::super::super::random::Random;
use host_stub::comm::Comm;

/// Two groups of the world's ranks.
pub(super) struct Groups {
    /// The group of each rank of the world, if it is in one.
    sides: Vec<Option<usize>>,
    /// Whether their ranks are in the opposite order.
    backwards: bool,
    /// The leader of each, by its rank there.
    leaders: [usize; 2],
}

impl Groups {
    /// Several, where there are two ranks.
    pub(super) fn several(size: usize, random: &mut Random) -> Vec<Groups> {
        let mut any = Vec::new();
        for rank in 0..size {
            any.push(match rank {
                0 | 1 => Some(rank),
                _ => random.pick(&[Some(0), Some(1), Some(1), None]),
            });
        }
        let shapes: Vec<Vec<Option<usize>>> = vec![
            (0..size).map(|rank| Some(usize::from(rank > 0))).collect(),
            (0..size)
                .map(|rank| Some(usize::from(rank + 1 < size)))
                .collect(),
            (0..size).map(|rank| Some(rank % 2)).collect(),
            any,
        ];
        let with_two = shapes.into_iter().filter(|_| size > 1);
        with_two
            .map(|sides| {
                let count = |side| sides.iter().filter(|found| **found == Some(side)).count();
                Groups {
                    leaders: [random.below(count(0)), random.below(count(1))],
                    backwards: random.below(2) == 1,
                    sides,
                }
            })
            .collect()
    }

    /// The ranks of a group, in its order.
    fn members(&self, side: usize) -> Vec<usize> {
        let all = (0..self.sides.len()).filter(|rank| self.sides[*rank] == Some(side));
        match self.backwards {
            true => all.rev().collect(),
            false => all.collect(),
        }
    }

    /// Their intercommunicator, at the ranks of both.
    pub(super) fn connect(self, context: &Context<'_>) -> Result<Option<Pairing>, Failure> {
        let world = Comm::world(context.job)?;
        let side = self.sides[context.rank];
        let key = context.rank as i64 * if self.backwards { -1 } else { 1 };
        let local = world.split(side.map(|side| side as u32), key)?;
        let (Some(local), Some(side)) = (local, side) else {
            return Ok(None);
        };
        let leader = self.leaders[side];
        let other = self.members(1 - side)[self.leaders[1 - side]];
        let peer = (local.rank() == leader).then_some((&world, other));
        let comm = local.intercommunicator(leader, peer, 77)?;
        Ok(Some(Pairing {
            members: [self.members(0), self.members(1)],
            side,
            local,
            comm,
        }))
    }
}

/// An intercommunicator as one rank has it.
pub(super) struct Pairing {
    /// Both groups, as ranks of the world.
    pub(super) members: [Vec<usize>; 2],
    /// This rank's group.
    pub(super) side: usize,
    pub(super) local: Comm,
    pub(super) comm: Comm,
}

impl Pairing {
    pub(super) fn sizes(&self) -> [usize; 2] {
        [self.members[0].len(), self.members[1].len()]
    }

    pub(super) fn free(self) -> Outcome {
        self.comm.free()?;
        Ok(self.local.free()?)
    }
}
