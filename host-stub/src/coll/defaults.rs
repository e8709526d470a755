//! The host's default table: every collective as a schedule of its published algorithm. A blocking
//! call is the schedule and a wait for it.

use super::algorithms;
use super::{CollArgs, CollRequest, CollTable, Collective, Collectives};
use crate::comm::table::{Staged, give_back, placed};
use crate::comm::{Comm, CommResult};
use crate::schedule::{Plane, Ticket};

/// Starts the schedule. Buffers on devices are first copied to host memory. The returned buffers are copied back
/// afterwards.
///
/// # Safety
/// The buffers are valid until the schedule is complete.
unsafe fn start(
    collective: Collective,
    comm: &Comm,
    args: &CollArgs<'_>,
) -> CommResult<(Ticket, Vec<Staged>)> {
    let number = (Plane::User, comm.scope().next(Plane::User));
    let engine = comm.any_engine(collective.name())?;
    let (mut args, mut staged, mut failed) = (*args, Vec::new(), None);
    if args.on_device {
        // SAFETY: the caller guarantees the buffers.
        let found = unsafe { placed(&comm.view(), comm.job().devices(), collective, &args) };
        // The other ranks use this number, too, and would wait.
        let found = found.inspect_err(|error| {
            engine.break_off(comm.scope(), &error.to_string());
        })?;
        (args, staged, failed) = (found.args, found.staged, found.failed);
    }
    // SAFETY: the caller guarantees the buffers; the algorithms stay within them.
    let ticket = unsafe {
        engine.start(collective.name(), comm.scope(), number, failed, |plan| {
            algorithms::build(plan, collective, &args);
        })
    }?;
    Ok((ticket, staged))
}

/// The host's default for a blocking entry.
///
/// # Safety
/// The conditions of [`super::Blocking`].
pub(super) unsafe fn blocking(
    collective: Collective,
    comm: &Comm,
    args: &CollArgs<'_>,
) -> CommResult<()> {
    // SAFETY: the caller guarantees the buffers; the schedule is complete when the wait is over.
    let (ticket, staged) = unsafe { start(collective, comm, args) }?;
    let done = comm.any_engine(collective.name())?.wait(comm.job(), ticket);
    if staged.is_empty() {
        return done;
    }
    // SAFETY: the caller guarantees the buffers; the schedule is complete when the wait is over.
    unsafe { give_back(staged, comm.job().devices(), done) }
}

macro_rules! defaults {
    ($($nonblocking:ident, $collective:ident;)*) => {
        $(
            unsafe fn $nonblocking(
                _: &CollTable,
                comm: &Comm,
                args: &CollArgs<'_>,
            ) -> CommResult<CollRequest> {
                // SAFETY: the caller guarantees the buffers until the request is complete.
                let (ticket, staged) = unsafe { start(Collective::$collective, comm, args) }?;
                Ok(CollRequest::scheduled(comm, ticket).and_then_back(staged))
            }
        )*

        /// The default functions. The blocking entries are absent, which selects the host's
        /// defaults.
        pub(super) const FUNCTIONS: Collectives = Collectives::of_nonblocking([$($nonblocking),*], blocking);

        // Checks that the entries are in the order of the collectives.
        const _: () = {
            let order = [$(Collective::$collective),*];
            let mut index = 0;
            while index < order.len() {
                assert!(order[index] as usize == index);
                index += 1;
            }
        };
    };
}

defaults! {
    ibarrier, Barrier;
    ibcast, Bcast;
    ireduce, Reduce;
    iallreduce, Allreduce;
    igather, Gather;
    iscatter, Scatter;
    iallgather, Allgather;
    ialltoall, Alltoall;
    ireduce_scatter, ReduceScatter;
    iscan, Scan;
    iexscan, Exscan;
    iallgatherv, Allgatherv;
    ialltoallv, Alltoallv;
}
