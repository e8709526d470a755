//! The public calls of a communicator.
//!
//! Buffers are raw, as in MPI: elements of `datatype`, without alignment. A null send buffer means that the operand is
//! in the receive buffer (MPI_IN_PLACE), at the root if the call has one. Buffers may be on a device, named as in any
//! other call ([`crate::device`]); the third way is [`CollArgs::on_device`]. Every rank calls the collectives of a
//! communicator in the same order, with the same counts, types, operations and roots. Otherwise a call returns an
//! error or waits forever.

use plugin_api::Datatype;

use super::{BlockList, CollArgs, CollRequest, Collective};
use crate::base::Op;
use crate::comm::table::Visit;
use crate::comm::{Comm, CommResult};
use crate::device::is_looked_for;

impl Comm {
    /// Makes any collective.
    ///
    /// # Safety
    /// `send` is readable and `recv` writable for the bytes that the collective uses, until the
    /// call returns. The buffers do not overlap. For device memory, the copy functions can read and
    /// write it in the same way.
    #[inline]
    pub unsafe fn collective(&self, collective: Collective, args: &CollArgs<'_>) -> CommResult<()> {
        // SAFETY: the caller guarantees the same conditions.
        unsafe {
            if is_looked_for() || args.on_device {
                return self.collective_located(collective, args);
            }
            self.collective_here(collective, args)
        }
    }

    /// Like [`collective`](Self::collective), for buffers in host memory.
    ///
    /// # Safety
    /// The conditions of [`collective`](Self::collective).
    pub(super) unsafe fn collective_here(
        &self,
        collective: Collective,
        args: &CollArgs<'_>,
    ) -> CommResult<()> {
        let visit = Visit::enter(self, collective.name())?;
        args.check(collective, &self.view())?;
        // SAFETY: the arguments were checked; the caller guarantees the buffers.
        unsafe { visit.table().call(collective, self, args) }
    }

    /// Starts any collective without waiting for it.
    ///
    /// # Safety
    /// The conditions of [`collective`](Self::collective), until the request is complete.
    #[inline]
    pub unsafe fn start_collective(
        &self,
        collective: Collective,
        args: &CollArgs<'_>,
    ) -> CommResult<CollRequest> {
        // SAFETY: the caller guarantees the same conditions.
        unsafe {
            if is_looked_for() || args.on_device {
                return self.start_collective_located(collective, args);
            }
            self.start_collective_here(collective, args)
        }
    }

    /// Like [`start_collective`](Self::start_collective), for buffers in host memory.
    ///
    /// # Safety
    /// The conditions of [`start_collective`](Self::start_collective).
    pub(super) unsafe fn start_collective_here(
        &self,
        collective: Collective,
        args: &CollArgs<'_>,
    ) -> CommResult<CollRequest> {
        let visit = Visit::enter(self, collective.name())?;
        args.check(collective, &self.view())?;
        // SAFETY: the arguments were checked; the caller guarantees the buffers.
        unsafe { visit.table().start(collective, self, args) }
    }

    /// Waits until all ranks have called.
    pub fn barrier(&self) -> CommResult<()> {
        // SAFETY: there are no buffers.
        unsafe { self.collective(Collective::Barrier, &CollArgs::default()) }
    }

    /// Like [`barrier`](Self::barrier), nonblocking.
    pub fn ibarrier(&self) -> CommResult<CollRequest> {
        // SAFETY: there are no buffers.
        unsafe { self.start_collective(Collective::Barrier, &CollArgs::default()) }
    }
}

/// The arguments of a broadcast.
fn broadcast<'a>(buffer: *mut u8, count: usize, datatype: Datatype, root: usize) -> CollArgs<'a> {
    CollArgs {
        recv: buffer,
        count,
        datatype,
        root,
        ..CollArgs::default()
    }
}

/// The arguments of a collective with a send buffer and a receive buffer.
fn moved<'a>(
    send: *const u8,
    recv: *mut u8,
    count: usize,
    datatype: Datatype,
    root: usize,
) -> CollArgs<'a> {
    CollArgs {
        send,
        recv,
        count,
        datatype,
        root,
        ..CollArgs::default()
    }
}

macro_rules! calls {
    ($(
        $(#[$doc:meta])*
        $blocking:ident, $nonblocking:ident, $collective:ident,
        ($($name:ident: $kind:ty),*) => $args:expr;
    )*) => {
        impl Comm {
            $(
                $(#[$doc])*
                ///
                /// # Safety
                /// The buffers are valid for the given elements and do not overlap, and no other
                /// code uses them until the call returns.
                #[allow(clippy::too_many_arguments, reason = "MPI's")]
                pub unsafe fn $blocking(&self, $($name: $kind),*) -> CommResult<()> {
                    // SAFETY: the caller guarantees the buffers.
                    unsafe { self.collective(Collective::$collective, &$args) }
                }

                #[doc = concat!("As [`", stringify!($blocking), "`](Self::", stringify!($blocking), "), nonblocking.")]
                ///
                /// # Safety
                /// The conditions of the blocking call, until the request is complete.
                #[allow(clippy::too_many_arguments, reason = "MPI's")]
                pub unsafe fn $nonblocking(&self, $($name: $kind),*) -> CommResult<CollRequest> {
                    // SAFETY: the caller guarantees the buffers.
                    unsafe { self.start_collective(Collective::$collective, &$args) }
                }
            )*
        }
    };
}

calls! {
    /// Copies `count` elements from the root's buffer to all ranks.
    bcast, ibcast, Bcast,
    (buffer: *mut u8, count: usize, datatype: Datatype, root: usize)
        => broadcast(buffer, count, datatype, root);

    /// Combines `count` elements of every rank. The root gets the result.
    reduce, ireduce, Reduce,
    (send: *const u8, recv: *mut u8, count: usize, datatype: Datatype, op: Op, root: usize)
        => CollArgs { op, ..moved(send, recv, count, datatype, root) };

    /// Combines `count` elements of every rank. Every rank gets the same result, bit for bit.
    allreduce, iallreduce, Allreduce,
    (send: *const u8, recv: *mut u8, count: usize, datatype: Datatype, op: Op)
        => CollArgs { op, ..moved(send, recv, count, datatype, 0) };

    /// Gives the root `count` elements of every rank, in rank order.
    gather, igather, Gather,
    (send: *const u8, recv: *mut u8, count: usize, datatype: Datatype, root: usize)
        => moved(send, recv, count, datatype, root);

    /// Gives every rank its `count` elements of the root's buffer. If the root's receive buffer is
    /// null, its own elements are not moved.
    scatter, iscatter, Scatter,
    (send: *const u8, recv: *mut u8, count: usize, datatype: Datatype, root: usize)
        => moved(send, recv, count, datatype, root);

    /// Gives every rank `count` elements of every rank, in rank order.
    allgather, iallgather, Allgather,
    (send: *const u8, recv: *mut u8, count: usize, datatype: Datatype)
        => moved(send, recv, count, datatype, 0);

    /// Gives every rank `count` elements of every rank, different ones for each rank.
    alltoall, ialltoall, Alltoall,
    (send: *const u8, recv: *mut u8, count: usize, datatype: Datatype)
        => moved(send, recv, count, datatype, 0);

    /// Combines the operands of all ranks. The operands' length is the sum of the counts; rank `r` gets
    /// `counts[r]` elements of the result. In place, the operand is in `recv`, and the result is
    /// written to its beginning.
    reduce_scatter, ireduce_scatter, ReduceScatter,
    (send: *const u8, recv: *mut u8, counts: &[usize], datatype: Datatype, op: Op)
        => CollArgs { op, counts, ..moved(send, recv, 0, datatype, 0) };

    /// Like `reduce_scatter`, with `count` elements for every rank.
    reduce_scatter_block, ireduce_scatter_block, ReduceScatter,
    (send: *const u8, recv: *mut u8, count: usize, datatype: Datatype, op: Op)
        => CollArgs { op, ..moved(send, recv, count, datatype, 0) };

    /// Combines `count` elements of the ranks up to and including this one.
    scan, iscan, Scan,
    (send: *const u8, recv: *mut u8, count: usize, datatype: Datatype, op: Op)
        => CollArgs { op, ..moved(send, recv, count, datatype, 0) };

    /// Combines `count` elements of the ranks before this one. Rank 0's result does not change.
    exscan, iexscan, Exscan,
    (send: *const u8, recv: *mut u8, count: usize, datatype: Datatype, op: Op)
        => CollArgs { op, ..moved(send, recv, count, datatype, 0) };

    /// Gives every rank `count` elements of every rank. `blocks` contains the number of elements of
    /// each rank, equal on all ranks, and their positions, which may differ.
    allgatherv, iallgatherv, Allgatherv,
    (send: *const u8, count: usize, recv: *mut u8, blocks: BlockList<'_>, datatype: Datatype)
        => CollArgs { recv_blocks: blocks, ..moved(send, recv, count, datatype, 0) };

    /// Gives every rank elements of every rank: from the blocks `given` of the sender's buffer into
    /// the blocks `taken` of the receiver's buffer. In place, `send` is null and `given` is empty.
    alltoallv, ialltoallv, Alltoallv,
    (send: *const u8, given: BlockList<'_>, recv: *mut u8, taken: BlockList<'_>, datatype: Datatype)
        => CollArgs {
            send_blocks: given,
            recv_blocks: taken,
            ..moved(send, recv, 0, datatype, 0)
        };
}
