//! The arguments of a collective.

use plugin_api::Datatype;

use super::blocks::BlockList;
use super::view::View;
use crate::base::Op;
use crate::schedule::Extents;

osc_engine::named_enum! {
    /// The collectives. Names are MPI's function names in lower case, without the prefix.
    #[repr(u8)]
    pub enum Collective {
        /// Waits until all ranks have called.
        Barrier = "barrier",
        /// Copies the root's buffer to all ranks.
        Bcast = "bcast",
        /// Gives the root the reduction of all operands.
        Reduce = "reduce",
        /// Gives all ranks the reduction of all operands.
        Allreduce = "allreduce",
        /// Gives the root a block of each rank.
        Gather = "gather",
        /// Gives each rank a block of the root.
        Scatter = "scatter",
        /// Gives all ranks a block of each rank.
        Allgather = "allgather",
        /// Gives each rank a block of each rank.
        Alltoall = "alltoall",
        /// Gives each rank a part of the reduction of all operands.
        ReduceScatter = "reduce_scatter",
        /// Gives each rank the reduction of the operands of the ranks up to and including it.
        Scan = "scan",
        /// Gives each rank the reduction of the operands of the ranks before it.
        Exscan = "exscan",
        /// Gives all ranks a block of each rank, of any sizes.
        Allgatherv = "allgatherv",
        /// Gives each rank a block of each rank, of any sizes.
        Alltoallv = "alltoallv",
    }
}

impl Collective {
    /// Whether the collective has a root.
    pub const fn is_rooted(self) -> bool {
        matches!(
            self,
            Collective::Bcast | Collective::Reduce | Collective::Gather | Collective::Scatter
        )
    }

    /// Whether lists give the positions of the blocks of all ranks.
    pub(crate) const fn is_listed(self) -> bool {
        matches!(self, Collective::Allgatherv | Collective::Alltoallv)
    }

    /// Whether the collective combines elements.
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

/// The arguments of every collective. Each collective uses only the ones that it needs.
#[derive(Clone, Copy, Debug)]
pub struct CollArgs<'a> {
    /// This rank's send buffer. If null, the data is in `recv` (MPI_IN_PLACE); for an alltoallv, only if
    /// `send_blocks` is empty, too.
    pub send: *const u8,
    /// This rank's receive buffer, or the buffer of a broadcast. Null if the rank receives nothing, or at the
    /// root of a scatter whose own block is not moved.
    pub recv: *mut u8,
    /// Elements of a broadcast or reduction; for all other collectives, elements of a block. For an allgatherv,
    /// elements that this rank sends.
    pub count: usize,
    /// Elements that each rank receives in a reduce_scatter; if empty, `count` for each rank.
    pub counts: &'a [usize],
    /// The element type.
    pub datatype: Datatype,
    /// The operation that combines elements.
    pub op: Op,
    /// The root's rank.
    pub root: usize,
    /// States that the buffers are device memory, or mapped on a device; host memory is then refused. An entry that
    /// accepts buffers on devices sees it set if at least one buffer is on a device; [`crate::device::Devices`]
    /// returns the location of each.
    pub on_device: bool,
    /// The positions of the blocks in an alltoallv's send buffer.
    pub send_blocks: BlockList<'a>,
    /// The positions of the blocks in an allgatherv's or alltoallv's receive buffer.
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

/// The bytes of this rank's two buffers that a collective uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    /// Number of bytes of the send buffer that are read.
    pub(crate) send: usize,
    /// Number of bytes of the receive buffer that are read or written.
    pub(crate) recv: usize,
    /// Whether the receive buffer is read.
    pub(crate) reads: bool,
    /// Whether the receive buffer is written.
    pub(crate) writes: bool,
}

impl CollArgs<'_> {
    /// Size in bytes of a block or operand.
    pub(crate) fn block(&self) -> usize {
        self.count * self.datatype.size()
    }

    /// The blocks of the send buffer. The arguments were checked.
    pub(crate) fn given_blocks(&self, collective: Collective) -> Extents {
        match collective {
            Collective::Alltoallv => self.send_blocks.extents(self.datatype),
            _ => Extents::Even(self.block()),
        }
    }

    /// The blocks of the receive buffer. The arguments were checked.
    pub(crate) fn taken_blocks(&self, collective: Collective) -> Extents {
        match collective.is_listed() {
            true => self.recv_blocks.extents(self.datatype),
            false => Extents::Even(self.block()),
        }
    }

    /// Whether the operand is in the receive buffer.
    pub(crate) fn is_in_place(&self, collective: Collective) -> bool {
        self.send.is_null() && (collective != Collective::Alltoallv || self.send_blocks.is_empty())
    }

    /// Number of elements that a rank receives in a reduce_scatter.
    pub fn count_of(&self, rank: usize) -> usize {
        self.counts.get(rank).copied().unwrap_or(self.count)
    }

    /// Number of elements of a reduce_scatter's operands.
    pub fn total(&self, size: usize) -> usize {
        if self.counts.is_empty() {
            self.count * size
        } else {
            self.counts.iter().sum()
        }
    }

    /// The use of a rank's buffers. The arguments were checked.
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

    /// Like [`span`](Self::span), if lists give the positions of blocks. The span ends with the
    /// last block.
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
