//! Calls of a communicator's collectives, by the number of the collective and its arguments. `host_calls.h` has a
//! function for each.
//!
//! Buffers are elements of a type. If a send buffer is NULL, the operand is in the receive buffer.
//! Every rank of a communicator calls its collectives in the same order, with the same arguments.

use std::ffi::c_int;

use host::coll::{CollArgs, Collective};
use host::comm::Comm;

use crate::base::codes::{marked, op, root};
use crate::base::error::{Error, Result, guarded};
use crate::base::handles::place;
use crate::base::tables;
use crate::coll::blocks::{self, values};
use crate::coll::request::{give, host_coll_request_t};
use crate::coll::table::host_coll_args_t;
use crate::comm::communicator::{comm, host_comm_t};

/// The collective at a place HOST_COLL_*.
pub(crate) fn known(call: &str, collective: c_int) -> Result<Collective> {
    let at = usize::try_from(collective).ok();
    let found = at.and_then(|at| Collective::ALL.get(at)).copied();
    found.ok_or_else(|| Error::argument(call, &format!("no collective {collective}")))
}

/// Calls `run` with the arguments from C.
///
/// # Safety
/// `args` is NULL or arguments, whose counts and lists are NULL or have a value for each rank.
pub(crate) unsafe fn with_args<R>(
    call: &str,
    args: *const host_coll_args_t,
    comm: &Comm,
    run: impl FnOnce(&CollArgs<'_>) -> Result<R>,
) -> Result<R> {
    // SAFETY: the caller guarantees the arguments.
    let args = unsafe { tables::read(call, args) }?;
    if args.reserved != 0 {
        let text = "the reserved room of the host_coll_args_t is not zero";
        return Err(Error::argument(call, text));
    }
    let root = root(call, args.root)?;
    let (datatype, on_device) = marked(call, args.datatype)?;
    let ranks = comm.size();
    run(&CollArgs {
        send: args.send.cast(),
        recv: args.recv.cast(),
        count: args.count,
        // SAFETY: the caller guarantees a value for each rank.
        counts: unsafe { values(args.counts, ranks) },
        datatype,
        op: op(call, args.op)?,
        root,
        on_device,
        // SAFETY: as for the counts.
        send_blocks: unsafe { blocks::read(&args.given, ranks) },
        // SAFETY: as for the counts.
        recv_blocks: unsafe { blocks::read(&args.taken, ranks) },
    })
}

/// Calls a collective of a communicator, HOST_COLL_*, and waits until it is done. host_calls.h has a documented function for
/// each.
///
/// # Safety
/// The buffers are valid for the given elements, and do not overlap. Lists have a value for each
/// rank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_coll(
    comm: *mut host_comm_t,
    collective: c_int,
    args: *const host_coll_args_t,
) -> c_int {
    guarded(|| {
        let call = "host_coll";
        let comm = self::comm(call, comm)?;
        let collective = known(call, collective)?;
        // SAFETY: passed on.
        unsafe {
            with_args(call, args, &comm, |args| {
                Ok(comm.collective(collective, args)?)
            })
        }
    })
}

/// As host_coll, nonblocking. The arguments and their lists are read before the call returns.
///
/// # Safety
/// `request` is writable; the buffers are valid for the given elements until the collective is
/// done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_coll_start(
    comm: *mut host_comm_t,
    collective: c_int,
    args: *const host_coll_args_t,
    request: *mut *mut host_coll_request_t,
) -> c_int {
    guarded(|| {
        let call = "host_coll_start";
        // SAFETY: passed on.
        let request = unsafe { place(call, request) }?;
        let comm = self::comm(call, comm)?;
        let collective = known(call, collective)?;
        // SAFETY: passed on.
        let started = unsafe {
            with_args(collective.name(), args, &comm, |args| {
                Ok(comm.start_collective(collective, args)?)
            })
        }?;
        *request = give(started);
        Ok(())
    })
}
