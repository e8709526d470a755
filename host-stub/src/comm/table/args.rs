//! What a collective is called with.

use plugin_api::Datatype;

use crate::base::Op;
use crate::comm::{CommError, CommResult};

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
}

impl Collective {
    /// Every collective.
    pub const ALL: [Collective; 11] = [
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
        }
    }

    /// Whether it has a root.
    pub const fn is_rooted(self) -> bool {
        matches!(
            self,
            Collective::Bcast | Collective::Reduce | Collective::Gather | Collective::Scatter
        )
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
    /// What this rank gives. Null: it is in `recv` (MPI_IN_PLACE).
    pub send: *const u8,
    /// What it gets; the buffer of a broadcast. Null where it gets nothing, and at the root of a
    /// scatter whose own block stays where it is.
    pub recv: *mut u8,
    /// Elements of a broadcast or reduction; of a block in all others.
    pub count: usize,
    /// Elements that each rank gets of a reduce_scatter; none: `count` each.
    pub counts: &'a [usize],
    /// The element type.
    pub datatype: Datatype,
    /// How elements are combined.
    pub op: Op,
    /// The root's rank.
    pub root: usize,
    /// Says that the buffers are device memory, or mapped on a device; host memory then is refused.
    pub on_device: bool,
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
    pub(crate) fn span(&self, collective: Collective, rank: usize, size: usize) -> Span {
        let is_root = rank == self.root;
        let in_place = self.send.is_null();
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

    /// Refuses what cannot be: before anything is sent.
    pub(crate) fn check(&self, collective: Collective, rank: usize, size: usize) -> CommResult<()> {
        let call = collective.name();
        let refuse = |reason: String| Err(CommError::BadArgument { call, reason });
        if collective == Collective::Barrier {
            return Ok(());
        }
        if collective.is_rooted() && self.root >= size {
            let root = self.root;
            return refuse(format!("no root {root} in a communicator of {size} ranks"));
        }
        if collective.reduces() {
            let reduces = !matches!(self.op, Op::Replace | Op::NoOp);
            if !reduces || !self.op.is_defined_on(self.datatype) {
                return Err(CommError::InvalidOperation {
                    call,
                    op: self.op,
                    datatype: self.datatype,
                });
            }
        }
        if !self.counts.is_empty() && self.counts.len() != size {
            let found = self.counts.len();
            return refuse(format!("{found} counts for {size} ranks"));
        }
        let elements = if self.counts.is_empty() {
            self.count.checked_mul(size)
        } else {
            let mut counts = self.counts.iter();
            counts.try_fold(0usize, |sum, count| sum.checked_add(*count))
        };
        let bytes = elements.and_then(|elements| elements.checked_mul(self.datatype.size()));
        match bytes {
            None => return refuse("its buffers would be larger than memory".to_owned()),
            Some(bytes) if isize::try_from(bytes).is_err() => {
                return refuse(format!("no buffer has {bytes} B"));
            }
            // Nothing is read or written.
            Some(0) => return Ok(()),
            Some(_) => {}
        }
        let root = rank == self.root;
        let (gives, gets) = match collective {
            Collective::Barrier => (false, false),
            Collective::Bcast => (false, true),
            // In place at the root only.
            Collective::Reduce | Collective::Gather => (!root, root),
            Collective::Scatter => (root, !root),
            _ => (false, true),
        };
        if gives && self.send.is_null() {
            return refuse("its send buffer is at the null address".to_owned());
        }
        if gets && self.recv.is_null() {
            return refuse("its receive buffer is at the null address".to_owned());
        }
        Ok(())
    }
}
