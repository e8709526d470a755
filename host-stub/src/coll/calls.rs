//! The public calls of a communicator.
//!
//! Buffers are raw, as in MPI: elements of `datatype`, without alignment. A null send buffer means that the operand is
//! in the receive buffer (MPI_IN_PLACE), at the root if the call has one. Buffers may be on a device, named as in any
//! other call ([`crate::device`]); the third way is [`CollArgs::on_device`]. Every rank calls the collectives of a
//! communicator in the same order, with the same counts, types, operations and roots. Otherwise a call returns an
//! error or waits for ever.

use plugin_api::Datatype;

use super::{BlockList, CollArgs, CollRequest, Collective};
use crate::base::Op;
use crate::comm::table::Visit;
use crate::comm::{Comm, CommResult};
use crate::device::is_looked_for;

impl Comm {
    /// Any collective.
    ///
    /// # Safety
    /// `send` is readable and `recv` writable for what the collective reads and writes, until the
    /// call returns; they do not overlap. On a device, likewise by copy functions.
    #[inline]
    pub unsafe fn collective(&self, collective: Collective, args: &CollArgs<'_>) -> CommResult<()> {
        // SAFETY: passed on.
        unsafe {
            if is_looked_for() || args.on_device {
                return self.collective_located(collective, args);
            }
            self.collective_here(collective, args)
        }
    }

    /// As [`collective`](Self::collective), with buffers that the host can follow.
    ///
    /// # Safety
    /// As for [`collective`](Self::collective).
    pub(super) unsafe fn collective_here(
        &self,
        collective: Collective,
        args: &CollArgs<'_>,
    ) -> CommResult<()> {
        let visit = Visit::enter(self, collective.name())?;
        args.check(collective, &self.view())?;
        // SAFETY: the arguments were checked; the caller vouches for the buffers.
        unsafe { visit.table().call(collective, self, args) }
    }

    /// Any collective, nonblocking.
    ///
    /// # Safety
    /// As for [`collective`](Self::collective), until the request is done.
    #[inline]
    pub unsafe fn start_collective(
        &self,
        collective: Collective,
        args: &CollArgs<'_>,
    ) -> CommResult<CollRequest> {
        // SAFETY: passed on.
        unsafe {
            if is_looked_for() || args.on_device {
                return self.start_collective_located(collective, args);
            }
            self.start_collective_here(collective, args)
        }
    }

    /// As [`start_collective`](Self::start_collective), with buffers that the host can follow.
    ///
    /// # Safety
    /// As for [`start_collective`](Self::start_collective).
    pub(super) unsafe fn start_collective_here(
        &self,
        collective: Collective,
        args: &CollArgs<'_>,
    ) -> CommResult<CollRequest> {
        let visit = Visit::enter(self, collective.name())?;
        args.check(collective, &self.view())?;
        // SAFETY: the arguments were checked; the caller vouches for the buffers.
        unsafe { visit.table().start(collective, self, args) }
    }

    /// Waits until all ranks are here.
    pub fn barrier(&self) -> CommResult<()> {
        // SAFETY: there are no buffers.
        unsafe { self.collective(Collective::Barrier, &CollArgs::default()) }
    }

    /// As [`barrier`](Self::barrier), nonblocking.
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

/// The arguments of what has a send and a receive buffer.
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
                /// The buffers are good for the elements named, do not overlap, and nobody else
                /// touches them until the call returns.
                #[allow(clippy::too_many_arguments, reason = "MPI's")]
                pub unsafe fn $blocking(&self, $($name: $kind),*) -> CommResult<()> {
                    // SAFETY: the caller vouches for the buffers.
                    unsafe { self.collective(Collective::$collective, &$args) }
                }

                #[doc = concat!("As [`", stringify!($blocking), "`](Self::", stringify!($blocking), "), nonblocking.")]
                ///
                /// # Safety
                /// The same, until the request is done.
                #[allow(clippy::too_many_arguments, reason = "MPI's")]
                pub unsafe fn $nonblocking(&self, $($name: $kind),*) -> CommResult<CollRequest> {
                    // SAFETY: the caller vouches for the buffers.
                    unsafe { self.start_collective(Collective::$collective, &$args) }
                }
            )*
        }
    };
}

calls! {
    /// Copies `count` elements from the root's buffer to everyone's.
    bcast, ibcast, Bcast,
    (buffer: *mut u8, count: usize, datatype: Datatype, root: usize)
        => broadcast(buffer, count, datatype, root);

    /// Combines `count` elements of every rank; the root gets the result.
    reduce, ireduce, Reduce,
    (send: *const u8, recv: *mut u8, count: usize, datatype: Datatype, op: Op, root: usize)
        => CollArgs { op, ..moved(send, recv, count, datatype, root) };

    /// Combines `count` elements of every rank; everyone gets the result, the same bits.
    allreduce, iallreduce, Allreduce,
    (send: *const u8, recv: *mut u8, count: usize, datatype: Datatype, op: Op)
        => CollArgs { op, ..moved(send, recv, count, datatype, 0) };

    /// Brings `count` elements of every rank to the root, in the order of the ranks.
    gather, igather, Gather,
    (send: *const u8, recv: *mut u8, count: usize, datatype: Datatype, root: usize)
        => moved(send, recv, count, datatype, root);

    /// Brings every rank its `count` elements of the root's buffer. At the root a null receive
    /// buffer leaves its own where they are.
    scatter, iscatter, Scatter,
    (send: *const u8, recv: *mut u8, count: usize, datatype: Datatype, root: usize)
        => moved(send, recv, count, datatype, root);

    /// Brings `count` elements of every rank to everyone, in the order of the ranks.
    allgather, iallgather, Allgather,
    (send: *const u8, recv: *mut u8, count: usize, datatype: Datatype)
        => moved(send, recv, count, datatype, 0);

    /// Brings every rank `count` elements of everyone.
    alltoall, ialltoall, Alltoall,
    (send: *const u8, recv: *mut u8, count: usize, datatype: Datatype)
        => moved(send, recv, count, datatype, 0);

    /// Combines as many elements of every rank as the counts add up to; rank `r` gets `counts[r]`
    /// of them. In place, the operand is in `recv`, and the result at its beginning.
    reduce_scatter, ireduce_scatter, ReduceScatter,
    (send: *const u8, recv: *mut u8, counts: &[usize], datatype: Datatype, op: Op)
        => CollArgs { op, counts, ..moved(send, recv, 0, datatype, 0) };

    /// As `reduce_scatter`, with `count` elements for every rank.
    reduce_scatter_block, ireduce_scatter_block, ReduceScatter,
    (send: *const u8, recv: *mut u8, count: usize, datatype: Datatype, op: Op)
        => CollArgs { op, ..moved(send, recv, count, datatype, 0) };

    /// Combines `count` elements of the ranks up to this one.
    scan, iscan, Scan,
    (send: *const u8, recv: *mut u8, count: usize, datatype: Datatype, op: Op)
        => CollArgs { op, ..moved(send, recv, count, datatype, 0) };

    /// Combines `count` elements of the ranks before this one; rank 0's result is left as it is.
    exscan, iexscan, Exscan,
    (send: *const u8, recv: *mut u8, count: usize, datatype: Datatype, op: Op)
        => CollArgs { op, ..moved(send, recv, count, datatype, 0) };

    /// Brings `count` elements of every rank to everyone; `blocks` says how many come from whom, the
    /// same at each rank, and where they go, which may differ.
    allgatherv, iallgatherv, Allgatherv,
    (send: *const u8, count: usize, recv: *mut u8, blocks: BlockList<'_>, datatype: Datatype)
        => CollArgs { recv_blocks: blocks, ..moved(send, recv, count, datatype, 0) };

    /// Brings every rank elements of everyone: from `given` of this rank's send buffer into `taken` of
    /// the others' receive buffers. In place, `send` is null and `given` empty.
    alltoallv, ialltoallv, Alltoallv,
    (send: *const u8, given: BlockList<'_>, recv: *mut u8, taken: BlockList<'_>, datatype: Datatype)
        => CollArgs {
            send_blocks: given,
            recv_blocks: taken,
            ..moved(send, recv, 0, datatype, 0)
        };
}
