//! Model of collectives: the operands of each rank and its expected result. Every rank computes both for all ranks.

use super::super::random::Random;
use super::lists::is_listed;
use super::ops;
use host_stub::coll::Collective;
use host_stub::win::{Op, combine};
use plugin_api::Datatype;

/// One collective.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) collective: Collective,
    /// Elements of a block or an operand.
    pub(super) count: usize,
    pub(super) root: usize,
    pub(super) datatype: Datatype,
    pub(super) op: Op,
    pub(super) in_place: bool,
    /// Whether the ranks get different amounts, in a reduce_scatter or by lists.
    pub(super) uneven: bool,
}

impl Call {
    /// Bytes of a block.
    pub(super) fn block(&self) -> usize {
        self.count * self.datatype.size()
    }

    /// Elements that each rank gets of a reduce_scatter; empty if all get `count`.
    pub(super) fn counts(&self, size: usize) -> Vec<usize> {
        if self.collective != Collective::ReduceScatter || !self.uneven {
            return Vec::new();
        }
        (0..size).map(|rank| self.count * (rank % 3) / 2).collect()
    }

    fn count_of(&self, rank: usize, size: usize) -> usize {
        self.counts(size).get(rank).copied().unwrap_or(self.count)
    }

    /// Bytes that a rank sends.
    pub(super) fn given(&self, rank: usize, size: usize) -> usize {
        if is_listed(self.collective) {
            return self.listed_given(rank, size);
        }
        let rooted = rank == self.root;
        match self.collective {
            Collective::Barrier => 0,
            Collective::Bcast | Collective::Scatter if !rooted => 0,
            Collective::Scatter | Collective::Alltoall => self.block() * size,
            Collective::ReduceScatter => {
                let total: usize = (0..size).map(|rank| self.count_of(rank, size)).sum();
                total * self.datatype.size()
            }
            _ => self.block(),
        }
    }

    /// Bytes that a rank receives.
    pub(super) fn taken(&self, rank: usize, size: usize) -> usize {
        if is_listed(self.collective) {
            return self.listed_taken(rank, size);
        }
        let rooted = rank == self.root;
        match self.collective {
            Collective::Barrier => 0,
            Collective::Reduce | Collective::Gather if !rooted => 0,
            Collective::Gather | Collective::Allgather | Collective::Alltoall => {
                self.block() * size
            }
            Collective::ReduceScatter => self.count_of(rank, size) * self.datatype.size(),
            _ => self.block(),
        }
    }

    /// The operand that a rank gives.
    pub(super) fn operand(&self, stream: &Random, rank: usize, size: usize) -> Vec<u8> {
        let mut random = stream.fork(rank as u64);
        let len = self.given(rank, size);
        if is_listed(self.collective) {
            // The elements are only moved, so any bytes are valid.
            return random.bytes(len);
        }
        ops::operand(self.datatype, &mut random, len)
    }

    /// The expected contents of a rank's receive buffer afterwards; `before` is the buffer's
    /// earlier contents, which some collectives leave partly unchanged.
    pub(super) fn result(&self, operands: &[Vec<u8>], rank: usize, before: &[u8]) -> Vec<u8> {
        let size = operands.len();
        let block = self.block();
        let reduced = |ranks: std::ops::Range<usize>| {
            let mut sum = operands[ranks.start].clone();
            for other in ranks.skip(1) {
                combine(self.datatype, self.op, &mut sum, &operands[other]);
            }
            sum
        };
        if self.taken(rank, size) == 0 {
            return Vec::new();
        }
        match self.collective {
            Collective::Barrier => Vec::new(),
            Collective::Bcast => operands[self.root].clone(),
            Collective::Reduce | Collective::Allreduce => reduced(0..size),
            Collective::Gather | Collective::Allgather => operands.concat(),
            Collective::Scatter => operands[self.root][rank * block..][..block].to_vec(),
            Collective::Alltoall => {
                let blocks = operands.iter().map(|all| &all[rank * block..][..block]);
                blocks.flatten().copied().collect()
            }
            Collective::ReduceScatter => {
                let before: usize = (0..rank).map(|rank| self.count_of(rank, size)).sum();
                let start = before * self.datatype.size();
                reduced(0..size)[start..][..self.taken(rank, size)].to_vec()
            }
            Collective::Scan => reduced(0..rank + 1),
            Collective::Exscan if rank == 0 => before.to_vec(),
            Collective::Exscan => reduced(0..rank),
            _ => self.listed_result(operands, rank),
        }
    }
}
