//! The lists of blocks of v forms: the amounts between ranks, and their places.

use super::model::Call;
use host_stub::coll::{BlockList, Collective};
use plugin_api::Datatype;

/// The places of bytes in a buffer: the offset and the length of each part.
pub(super) type Places = Vec<(usize, usize)>;

/// Copies packed bytes to their places.
pub(super) fn lay(buffer: &mut [u8], packed: &[u8], places: &Places) {
    let mut rest = packed;
    for &(offset, len) in places {
        let (part, others) = rest.split_at(len);
        buffer[offset..offset + len].copy_from_slice(part);
        rest = others;
    }
}

/// Bytes from the beginning of a buffer to the end of its last part.
pub(super) fn end(places: &Places) -> usize {
    let ends = places.iter().map(|(offset, len)| offset + len);
    ends.max().unwrap_or(0)
}

/// The lists for one buffer; empty if a collective has none.
#[derive(Default)]
pub(super) struct Lists {
    counts: Vec<usize>,
    displacements: Vec<usize>,
    /// The same places, in bytes.
    pub(super) places: Places,
}

impl Lists {
    /// Blocks of `counts` elements with gaps between them; `backwards` reverses their order.
    fn spread(counts: Vec<usize>, datatype: Datatype, backwards: bool) -> Lists {
        let size = counts.len();
        let unit = datatype.size();
        let mut lists = Lists {
            counts,
            displacements: vec![0; size],
            places: vec![(0, 0); size],
        };
        let mut next = 0;
        for index in 0..size {
            let at = if backwards { size - 1 - index } else { index };
            let count = lists.counts[at];
            lists.displacements[at] = next;
            lists.places[at] = (next * unit, count * unit);
            // Some neighbours have no gap between them.
            next += count + index % 3;
        }
        lists
    }

    /// The lists in the form of a call's argument.
    pub(super) fn blocks(&self) -> BlockList<'_> {
        BlockList {
            counts: &self.counts,
            displacements: &self.displacements,
        }
    }
}

/// Whether a collective takes lists of its blocks.
pub(super) fn is_listed(collective: Collective) -> bool {
    matches!(collective, Collective::Allgatherv | Collective::Alltoallv)
}

impl Call {
    /// A number that depends on sender and receiver. In an in-place all-to-all both send the same
    /// amount to each other.
    fn pair(&self, from: usize, to: usize) -> usize {
        match self.collective {
            Collective::Allgatherv => from * 5,
            _ if self.in_place => (from + 1) * (to + 1),
            _ => from * 5 + to * 3,
        }
    }

    /// Elements that one rank sends to another.
    pub(super) fn elements(&self, from: usize, to: usize) -> usize {
        if self.uneven {
            self.count * (self.pair(from, to) % 4) / 2
        } else {
            self.count
        }
    }

    /// Bytes that one rank sends to another.
    pub(super) fn bytes(&self, from: usize, to: usize) -> usize {
        self.elements(from, to) * self.datatype.size()
    }

    /// The lists of a rank's send buffer.
    pub(super) fn send_lists(&self, rank: usize, size: usize) -> Lists {
        match self.collective == Collective::Alltoallv && !self.in_place {
            true => self.lists(size, |to| self.elements(rank, to)),
            false => Lists::default(),
        }
    }

    /// The lists of a rank's receive buffer.
    pub(super) fn recv_lists(&self, rank: usize, size: usize) -> Lists {
        match is_listed(self.collective) {
            true => self.lists(size, |from| self.elements(from, rank)),
            false => Lists::default(),
        }
    }

    fn lists(&self, size: usize, elements: impl Fn(usize) -> usize) -> Lists {
        Lists::spread(
            (0..size).map(elements).collect(),
            self.datatype,
            self.uneven,
        )
    }

    /// The beginning, in the operand of a rank, of its block for another rank.
    pub(super) fn start(&self, from: usize, to: usize) -> usize {
        match self.collective {
            Collective::Allgatherv => 0,
            _ => (0..to).map(|before| self.bytes(from, before)).sum(),
        }
    }

    /// Bytes that a rank sends.
    pub(super) fn listed_given(&self, rank: usize, size: usize) -> usize {
        match self.collective {
            Collective::Allgatherv => self.bytes(rank, rank),
            _ => (0..size).map(|to| self.bytes(rank, to)).sum(),
        }
    }

    /// Bytes that a rank receives.
    pub(super) fn listed_taken(&self, rank: usize, size: usize) -> usize {
        (0..size).map(|from| self.bytes(from, rank)).sum()
    }

    /// The expected result of a rank, block after block.
    pub(super) fn listed_result(&self, operands: &[Vec<u8>], rank: usize) -> Vec<u8> {
        let blocks = operands.iter().enumerate().map(|(from, operand)| {
            let start = self.start(from, rank);
            &operand[start..start + self.bytes(from, rank)]
        });
        blocks.flatten().copied().collect()
    }

    /// The count that a rank passes with the lists.
    pub(super) fn own_count(&self, rank: usize) -> usize {
        match self.collective {
            Collective::Allgatherv => self.elements(rank, rank),
            _ => self.count,
        }
    }
}
