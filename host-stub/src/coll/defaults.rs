//! The host's default table: every collective as a schedule of its published algorithm. A blocking
//! call is the schedule and a wait for it.

use super::algorithms;
use super::staged::Staged;
use super::{CollArgs, CollRequest, CollTable, Collective, Collectives};
use crate::comm::{Comm, CommResult};
use crate::schedule::{Plane, Ticket};

/// # Safety
/// The buffers are good until the schedule is done.
unsafe fn start(collective: Collective, comm: &Comm, args: &CollArgs<'_>) -> CommResult<Ticket> {
    let number = (Plane::User, comm.scope().next(Plane::User));
    let engine = comm.any_engine(collective.name())?;
    let staged = args.on_device.then(|| Staged::new(comm, collective, args));
    // The others have this number too, and wait.
    let staged = staged.transpose().inspect_err(|error| {
        engine.break_off(comm.scope(), &error.to_string());
    })?;
    // SAFETY: the caller vouches for the buffers; the algorithms stay within them.
    unsafe {
        engine.start(
            collective.name(),
            comm.scope(),
            number,
            |plan| match staged {
                None => algorithms::build(plan, collective, args),
                Some(staged) => staged.build(plan, |plan, args| {
                    algorithms::build(plan, collective, args);
                }),
            },
        )
    }
}

/// The default of a blocking entry.
///
/// # Safety
/// As for [`super::Blocking`].
pub(super) unsafe fn blocking(
    collective: Collective,
    comm: &Comm,
    args: &CollArgs<'_>,
) -> CommResult<()> {
    // SAFETY: the caller vouches for the buffers; the schedule is done when the wait is over.
    let ticket = unsafe { start(collective, comm, args) }?;
    comm.any_engine(collective.name())?.wait(comm.job(), ticket)
}

macro_rules! defaults {
    ($($nonblocking:ident, $collective:ident;)*) => {
        $(
            unsafe fn $nonblocking(
                _: &CollTable,
                comm: &Comm,
                args: &CollArgs<'_>,
            ) -> CommResult<CollRequest> {
                // SAFETY: the caller vouches for the buffers until the request is done.
                let ticket = unsafe { start(Collective::$collective, comm, args) }?;
                Ok(CollRequest::scheduled(comm, ticket))
            }
        )*

        /// The default functions: blocking entries are absent, which means these.
        pub(super) const FUNCTIONS: Collectives = Collectives::of_nonblocking([$($nonblocking),*], blocking);

        // In the order of the collectives.
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
