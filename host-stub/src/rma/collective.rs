//! SliceCollectives of slices.

use bytemuck::Pod;

use super::element::Element;
use crate::coll::{CollArgs, Collective};
use crate::comm::{Comm, CommError, CommResult};
use crate::win::{Datatype, Op};

/// SliceCollectives of a communicator whose buffers are slices of plain data: reductions of an [`Element`] type, all others
/// of any [`Pod`] type.
///
/// Every rank calls the collectives in the same order, with buffers of the same length, the same operation and the same
/// root. Each call blocks until this rank's buffers may be used again.
///
/// A slice of the wrong length is [`CommError::BadArgument`], before anything is sent; the other ranks then wait for this
/// rank. If ranks call with different lengths, they get [`CommError::Length`], get wrong elements, or wait; no call
/// accesses memory beyond its slices.
///
/// ```no_run
/// use host_stub::rma::{SliceCollectives, Op};
/// use host_stub::{Comm, Job, JobOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let job = Job::init(JobOptions::default())?;
/// let world = Comm::world(&job)?;
/// let mut sum = [0];
/// SliceCollectives::of(&world).allreduce(&[job.rank()], &mut sum, Op::Sum)?;
/// println!("the ranks add up to {}", sum[0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SliceCollectives<'c>(&'c Comm);

impl<'c> SliceCollectives<'c> {
    /// The collectives of a communicator.
    pub fn of(comm: &'c Comm) -> Self {
        SliceCollectives(comm)
    }

    /// Waits until all ranks are here.
    pub fn barrier(self) -> CommResult<()> {
        self.0.barrier()
    }

    /// Copies the root's slice to all ranks.
    pub fn bcast<T: Pod>(self, buffer: &mut [T], root: usize) -> CommResult<()> {
        let count = size_of_val(buffer);
        self.call(Collective::Bcast, count, &[], buffer, root)
    }

    /// Combines the slices of all ranks element by element. The root gets the result in `recv`, which is as long as
    /// `send`; other ranks may pass an empty `recv`.
    pub fn reduce<T: Element>(
        self,
        send: &[T],
        recv: &mut [T],
        op: Op,
        root: usize,
    ) -> CommResult<()> {
        if self.0.rank() == root {
            check(Collective::Reduce, "receive", recv.len(), Some(send.len()))?;
        }
        self.combine(Collective::Reduce, send, recv, op, root)
    }

    /// Combines the slices of all ranks element by element. Every rank gets the same result, bit for bit, in `recv`,
    /// which is as long as `send`.
    pub fn allreduce<T: Element>(self, send: &[T], recv: &mut [T], op: Op) -> CommResult<()> {
        check(
            Collective::Allreduce,
            "receive",
            recv.len(),
            Some(send.len()),
        )?;
        self.combine(Collective::Allreduce, send, recv, op, 0)
    }

    /// Brings the slices of all ranks to the root's `recv`, in the order of the ranks. The root's `recv` is as long as
    /// `send` times the number of ranks. Other ranks may pass an empty `recv`.
    pub fn gather<T: Pod>(self, send: &[T], recv: &mut [T], root: usize) -> CommResult<()> {
        if self.0.rank() == root {
            check(
                Collective::Gather,
                "receive",
                recv.len(),
                self.all(send.len()),
            )?;
        }
        let count = size_of_val(send);
        self.call(Collective::Gather, count, send, recv, root)
    }

    /// The same as [`gather`](Self::gather), with the result at every rank.
    pub fn allgather<T: Pod>(self, send: &[T], recv: &mut [T]) -> CommResult<()> {
        check(
            Collective::Allgather,
            "receive",
            recv.len(),
            self.all(send.len()),
        )?;
        let count = size_of_val(send);
        self.call(Collective::Allgather, count, send, recv, 0)
    }

    /// Brings each rank its part of the root's `send`, which is as long as `recv` times the number of ranks. Other
    /// ranks may pass an empty `send`.
    pub fn scatter<T: Pod>(self, send: &[T], recv: &mut [T], root: usize) -> CommResult<()> {
        if self.0.rank() == root {
            check(
                Collective::Scatter,
                "send",
                send.len(),
                self.all(recv.len()),
            )?;
        }
        let count = size_of_val(recv);
        self.call(Collective::Scatter, count, send, recv, root)
    }

    /// Brings each rank one part of every rank's `send`. Both slices have the same length, a multiple of the number of
    /// ranks.
    pub fn alltoall<T: Pod>(self, send: &[T], recv: &mut [T]) -> CommResult<()> {
        let part = send.len() / self.0.size();
        check(Collective::Alltoall, "send", send.len(), self.all(part))?;
        check(
            Collective::Alltoall,
            "receive",
            recv.len(),
            Some(send.len()),
        )?;
        let count = part * size_of::<T>();
        self.call(Collective::Alltoall, count, send, recv, 0)
    }

    /// The number of elements of all ranks if each has `count`; `None` if they are too many for a
    /// slice.
    fn all(self, count: usize) -> Option<usize> {
        count.checked_mul(self.0.size())
    }

    /// A reduction; the lengths were checked.
    fn combine<T: Element>(
        self,
        collective: Collective,
        send: &[T],
        recv: &mut [T],
        op: Op,
        root: usize,
    ) -> CommResult<()> {
        let args = CollArgs {
            send: send.as_ptr().cast(),
            recv: recv.as_mut_ptr().cast(),
            count: send.len(),
            datatype: T::DATATYPE,
            op,
            root,
            ..CollArgs::default()
        };
        // SAFETY: `recv` is as long as `send` wherever the reduction writes it, `send` has `count` elements, they are
        // distinct borrows, and both outlive the call. Every bit pattern is a value of an `Element`.
        unsafe { self.0.collective(collective, &args) }
    }

    /// A collective that moves blocks of `count` bytes; the lengths were checked.
    fn call<T: Pod>(
        self,
        collective: Collective,
        count: usize,
        send: &[T],
        recv: &mut [T],
        root: usize,
    ) -> CommResult<()> {
        let args = CollArgs {
            send: send.as_ptr().cast(),
            recv: recv.as_mut_ptr().cast(),
            count,
            datatype: Datatype::Uint8,
            root,
            ..CollArgs::default()
        };
        // SAFETY: the slices hold all blocks that the collective reads and writes at this rank, they are distinct borrows,
        // and both outlive the call. Every bit pattern is a value of `Pod`.
        unsafe { self.0.collective(collective, &args) }
    }
}

/// Refuses a slice of the wrong length.
fn check(
    collective: Collective,
    buffer: &str,
    found: usize,
    wanted: Option<usize>,
) -> CommResult<()> {
    if wanted == Some(found) {
        return Ok(());
    }
    let wanted = wanted.map_or("more than memory has".to_owned(), |wanted| {
        wanted.to_string()
    });
    Err(CommError::BadArgument {
        call: collective.name(),
        reason: format!("its {buffer} buffer has {found} elements, and {wanted} are needed"),
    })
}
