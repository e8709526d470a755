//! Communicators for the tests.

use super::super::case::{Context, Failure, Outcome};
use host_stub::comm::Comm;

/// The communicators of one rank; other ranks have more or fewer.
pub(super) struct Shapes(Vec<Comm>);

impl Shapes {
    /// Makes a copy of the world, the world backwards, its odd and its even ranks, both one after the other, all ranks but the
    /// last, and this process alone. Collective.
    pub(super) fn make(context: &Context<'_>) -> Result<Shapes, Failure> {
        let world = Comm::world(context.job)?;
        let rank = context.rank as u32;
        let mut comms = vec![world.dup()?];
        comms.extend(world.split(Some(0), -i64::from(rank))?);
        comms.extend(world.split(Some(rank % 2), 0)?);
        // Splits neighbours: ranks of one node do not follow each other.
        comms.extend(world.split(Some(0), i64::from(rank % 2))?);
        if context.size > 2 {
            let but_last: Vec<usize> = (0..context.size - 1).collect();
            comms.extend(world.create(&but_last)?);
        }
        comms.extend(world.split(Some(rank), 0)?);
        Ok(Shapes(comms))
    }

    /// The communicators that include this rank.
    pub(super) fn mine(&self) -> &[Comm] {
        &self.0
    }

    pub(super) fn free(self) -> Outcome {
        for comm in self.0 {
            comm.free()?;
        }
        Ok(())
    }
}
