//! The arguments of a collective.

use plugin_api::Datatype;

use super::blocks::BlockList;
use super::view::View;
use crate::base::Op;
use crate::schedule::Extents;

/// The collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Collective {
    /// Waits until all ranks are here.
    Barrier,
    /// The root's buffer to all.
    Bcast,
    /// The reduction of all operands to the root.
    Reduce,
    /// The reduction of all operands to all.
    Allreduce,
    /// A block of each rank to the root.
    Gather,
    /// A block to each rank from the root.
    Scatter,
    /// A block of each rank to all.
    Allgather,
    /// A block of each rank to each.
    Alltoall,
    /// The reduction of all operands, a part of it to each rank.
    ReduceScatter,
    /// The reduction of the operands of the ranks up to this one.
    Scan,
    /// The same without this one's.
    Exscan,
    /// A block of each rank to all, of any sizes.
    Allgatherv,
    /// A block of each rank to each, of any sizes.
    Alltoallv,
}

impl Collective {
    /// Every collective.
    pub const ALL: [Collective; 13] = [
        Collective::Barrier,
        Collective::Bcast,
        Collective::Reduce,
        Collective::Allreduce,
        Collective::Gather,
        Collective::Scatter,
        Collective::Allgather,
        Collective::Alltoall,
        Collective::ReduceScatter,
        Collective::Scan,
        Collective::Exscan,
        Collective::Allgatherv,
        Collective::Alltoallv,
    ];

    /// The name, as MPI's function without prefix and in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Collective::Barrier => "barrier",
            Collective::Bcast => "bcast",
            Collective::Reduce => "reduce",
            Collective::Allreduce => "allreduce",
            Collective::Gather => "gather",
            Collective::Scatter => "scatter",
            Collective::Allgather => "allgather",
            Collective::Alltoall => "alltoall",
            Collective::ReduceScatter => "reduce_scatter",
            Collective::Scan => "scan",
            Collective::Exscan => "exscan",
            Collective::Allgatherv => "allgatherv",
            Collective::Alltoallv => "alltoallv",
        }
    }

    /// Whether it has a root.
    pub const fn is_rooted(self) -> bool {
        matches!(
            self,
            Collective::Bcast | Collective::Reduce | Collective::Gather | Collective::Scatter
        )
    }

    /// Whether lists say where the blocks of all ranks lie.
    pub(crate) const fn is_listed(self) -> bool {
        matches!(self, Collective::Allgatherv | Collective::Alltoallv)
    }

    /// Whether it combines elements.
    pub const fn reduces(self) -> bool {
        matches!(
            self,
            Collective::Reduce
                | Collective::Allreduce
                | Collective::ReduceScatter
                | Collective::Scan
                | Collective::Exscan
        )
    }
}

impl std::fmt::Display for Collective {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The arguments of every collective; each uses those that it has a meaning for.
#[derive(Clone, Copy, Debug)]
pub struct CollArgs<'a> {
    /// What this rank gives. Null: it is in `recv` (MPI_IN_PLACE); of an alltoallv if `send_blocks` is empty too.
    pub send: *const u8,
    /// What it gets; the buffer of a broadcast. Null where it gets nothing, and at the root of a
    /// scatter whose own block stays where it is.
    pub recv: *mut u8,
    /// Elements of a broadcast or reduction; of a block in all others. Of an allgatherv those that this rank gives.
    pub count: usize,
    /// Elements that each rank gets of a reduce_scatter; none: `count` each.
    pub counts: &'a [usize],
    /// The element type.
    pub datatype: Datatype,
    /// How elements are combined.
    pub op: Op,
    /// The root's rank.
    pub root: usize,
    /// Says that the buffers are device memory, or mapped on a device; host memory then is refused. For an entry that
    /// takes buffers on devices it says that at least one is; where each lies, [`crate::device::Devices`] tells.
    pub on_device: bool,
    /// Where the blocks of an alltoallv's send buffer lie.
    pub send_blocks: BlockList<'a>,
    /// Where those of an allgatherv's or alltoallv's receive buffer lie.
    pub recv_blocks: BlockList<'a>,
}

impl Default for CollArgs<'_> {
    fn default() -> Self {
        CollArgs {
            send: std::ptr::null(),
            recv: std::ptr::null_mut(),
            count: 0,
            counts: &[],
            datatype: Datatype::Uint8,
            op: Op::Sum,
            root: 0,
            on_device: false,
            send_blocks: BlockList::default(),
            recv_blocks: BlockList::default(),
        }
    }
}

/// What a rank's collective does with its two buffers, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    /// Bytes of the send buffer that are read.
    pub(crate) send: usize,
    /// Bytes of the receive buffer that are read, written or both.
    pub(crate) recv: usize,
    /// Whether the receive buffer is read.
    pub(crate) reads: bool,
    /// Whether it is written.
    pub(crate) writes: bool,
}

impl CollArgs<'_> {
    /// Bytes of a block or operand.
    pub(crate) fn block(&self) -> usize {
        self.count * self.datatype.size()
    }

    /// The blocks of the send buffer; of arguments that were checked.
    pub(crate) fn given_blocks(&self, collective: Collective) -> Extents {
        match collective {
            Collective::Alltoallv => self.send_blocks.extents(self.datatype),
            _ => Extents::Even(self.block()),
        }
    }

    /// The blocks of the receive buffer; of arguments that were checked.
    pub(crate) fn taken_blocks(&self, collective: Collective) -> Extents {
        match collective.is_listed() {
            true => self.recv_blocks.extents(self.datatype),
            false => Extents::Even(self.block()),
        }
    }

    /// Whether the operand is where the result will be.
    pub(crate) fn is_in_place(&self, collective: Collective) -> bool {
        self.send.is_null() && (collective != Collective::Alltoallv || self.send_blocks.is_empty())
    }

    /// Elements that a rank gets of a reduce_scatter.
    pub fn count_of(&self, rank: usize) -> usize {
        self.counts.get(rank).copied().unwrap_or(self.count)
    }

    /// Elements of a reduce_scatter's operands.
    pub fn total(&self, size: usize) -> usize {
        if self.counts.is_empty() {
            self.count * size
        } else {
            self.counts.iter().sum()
        }
    }

    /// What a rank does with its buffers; of arguments that were checked.
    pub(crate) fn span(&self, collective: Collective, view: &View) -> Span {
        let (rank, size) = (view.rank, view.size);
        let is_root = rank == self.root;
        let in_place = self.is_in_place(collective);
        if collective.is_listed() {
            return self.listed_span(collective, size, in_place);
        }
        let (one, all) = (self.count, self.count.saturating_mul(size));
        let at_root = |count| if is_root { count } else { 0 };
        let (send, recv) = match collective {
            Collective::Barrier => (0, 0),
            Collective::Bcast => (0, one),
            Collective::Reduce => (one, at_root(one)),
            Collective::Allreduce | Collective::Scan | Collective::Exscan => (one, one),
            Collective::Gather => (one, at_root(all)),
            Collective::Scatter => (at_root(all), one),
            Collective::Allgather => (one, all),
            Collective::Alltoall => (all, all),
            Collective::ReduceScatter if in_place => (0, self.total(size)),
            Collective::ReduceScatter => (self.total(size), self.count_of(rank)),
            _ => (0, 0),
        };
        let bytes = |count: usize| count.saturating_mul(self.datatype.size());
        Span {
            send: if in_place { 0 } else { bytes(send) },
            recv: if self.recv.is_null() { 0 } else { bytes(recv) },
            reads: match collective {
                Collective::Bcast => is_root,
                Collective::Scatter => false,
                _ => in_place,
            },
            writes: match collective {
                Collective::Bcast => !is_root,
                Collective::Exscan => rank > 0,
                _ => true,
            },
        }
    }

    /// As [`span`](Self::span), where lists say where blocks lie: up to the end of the last.
    fn listed_span(&self, collective: Collective, size: usize, in_place: bool) -> Span {
        let end = |blocks: Extents| {
            let ends = (0..size).map(|rank| blocks.of(rank).end());
            ends.max().unwrap_or(0)
        };
        let send = match collective {
            Collective::Allgatherv => self.block(),
            _ => end(self.given_blocks(collective)),
        };
        let recv = end(self.taken_blocks(collective));
        Span {
            send: if self.send.is_null() { 0 } else { send },
            recv: if self.recv.is_null() { 0 } else { recv },
            reads: in_place,
            writes: true,
        }
    }
}
