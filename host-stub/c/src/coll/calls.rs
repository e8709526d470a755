//! Collectives of communicators that move data, and what all collectives have in common.
//!
//! Buffers are elements of a type. Where a send buffer is NULL, the operand is where the result will be.
//! Every rank of a communicator calls its collectives in the same order, with the same arguments.

use std::ffi::{c_int, c_void};

use host::coll::{CollArgs, Collective};
use host::comm::Comm;

use crate::base::codes::{marked, op, root};
use crate::base::error::{Error, Result, guarded};
use crate::base::handles::place;
use crate::coll::blocks::{self, NO_BLOCKS, values};
use crate::coll::request::{give, host_coll_request_t};
use crate::coll::table::host_blocks_t;
use crate::comm::communicator::{comm, host_comm_t};

/// A collective's arguments as C gives them.
pub(crate) struct Given {
    pub(crate) send: *const c_void,
    pub(crate) recv: *mut c_void,
    pub(crate) count: usize,
    /// NULL: `count` each.
    pub(crate) counts: *const usize,
    /// Whether NULL is refused as counts: without them a reduce_scatter would be of nothing.
    pub(crate) needs_counts: bool,
    pub(crate) datatype: c_int,
    pub(crate) op: c_int,
    pub(crate) root: c_int,
    /// The blocks of `send`.
    pub(crate) given: host_blocks_t,
    /// The blocks of `recv`.
    pub(crate) taken: host_blocks_t,
}

impl Default for Given {
    fn default() -> Given {
        Given {
            send: std::ptr::null(),
            recv: std::ptr::null_mut(),
            count: 0,
            counts: std::ptr::null(),
            needs_counts: false,
            datatype: crate::base::codes::HOST_UINT8,
            op: crate::base::codes::HOST_SUM,
            root: 0,
            given: NO_BLOCKS,
            taken: NO_BLOCKS,
        }
    }
}

impl Given {
    /// Calls `run` with the arguments as the host knows them.
    ///
    /// # Safety
    /// Counts and lists are NULL or have a value for each rank.
    unsafe fn with_args<R>(
        &self,
        call: &str,
        comm: &Comm,
        run: impl FnOnce(&CollArgs<'_>) -> Result<R>,
    ) -> Result<R> {
        if self.needs_counts && self.counts.is_null() {
            return Err(Error::argument(call, "the counts are NULL"));
        }
        let (datatype, on_device) = marked(call, self.datatype)?;
        let root = root(call, self.root)?;
        let ranks = comm.size();
        run(&CollArgs {
            send: self.send.cast(),
            recv: self.recv.cast(),
            count: self.count,
            // SAFETY: passed on.
            counts: unsafe { values(self.counts, ranks) },
            datatype,
            op: op(call, self.op)?,
            root,
            on_device,
            // SAFETY: passed on.
            send_blocks: unsafe { blocks::read(&self.given, ranks) },
            // SAFETY: passed on.
            recv_blocks: unsafe { blocks::read(&self.taken, ranks) },
        })
    }

    /// # Safety
    /// The buffers are good for the collective until the call returns.
    pub(crate) unsafe fn run(
        &self,
        call: &str,
        collective: Collective,
        over: *mut host_comm_t,
    ) -> c_int {
        guarded(|| {
            let comm = comm(call, over)?;
            // SAFETY: passed on.
            unsafe { self.with_args(call, &comm, |args| Ok(comm.collective(collective, args)?)) }
        })
    }

    /// # Safety
    /// The buffers are good for the collective until it is done; `request` is NULL or writable.
    pub(crate) unsafe fn start(
        &self,
        call: &str,
        collective: Collective,
        over: *mut host_comm_t,
        request: *mut *mut host_coll_request_t,
    ) -> c_int {
        guarded(|| {
            // SAFETY: passed on.
            let request = unsafe { place(call, request) }?;
            let comm = comm(call, over)?;
            // SAFETY: passed on.
            let started = unsafe {
                self.with_args(call, &comm, |args| {
                    Ok(comm.start_collective(collective, args)?)
                })
            }?;
            *request = give(started);
            Ok(())
        })
    }
}

/// Waits until all ranks of a communicator are here.
///
/// # Safety
/// Any thread may call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_comm_barrier(comm: *mut host_comm_t) -> c_int {
    let given = Given::default();
    // SAFETY: passed on.
    unsafe { given.run("host_comm_barrier", Collective::Barrier, comm) }
}

/// As host_comm_barrier, nonblocking.
///
/// # Safety
/// `request` is writable; buffers are good for the elements named until the collective is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_comm_ibarrier(
    comm: *mut host_comm_t,
    request: *mut *mut host_coll_request_t,
) -> c_int {
    let given = Given::default();
    // SAFETY: passed on.
    unsafe { given.start("host_comm_ibarrier", Collective::Barrier, comm, request) }
}

/// Copies `count` elements from the root's buffer to everyone's.
///
/// # Safety
/// The buffers are good for the elements named, and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_bcast(
    buffer: *mut c_void,
    count: usize,
    datatype: c_int,
    root: c_int,
    comm: *mut host_comm_t,
) -> c_int {
    let given = Given {
        recv: buffer,
        count,
        datatype,
        root,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe { given.run("host_bcast", Collective::Bcast, comm) }
}

/// As host_bcast, nonblocking.
///
/// # Safety
/// `request` is writable; buffers are good for the elements named until the collective is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_ibcast(
    buffer: *mut c_void,
    count: usize,
    datatype: c_int,
    root: c_int,
    comm: *mut host_comm_t,
    request: *mut *mut host_coll_request_t,
) -> c_int {
    let given = Given {
        recv: buffer,
        count,
        datatype,
        root,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe { given.start("host_ibcast", Collective::Bcast, comm, request) }
}

/// Brings `count` elements of every rank to the root, in the order of the ranks.
///
/// # Safety
/// The buffers are good for the elements named, and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_gather(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: c_int,
    root: c_int,
    comm: *mut host_comm_t,
) -> c_int {
    let given = Given {
        send,
        recv,
        count,
        datatype,
        root,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe { given.run("host_gather", Collective::Gather, comm) }
}

/// As host_gather, nonblocking.
///
/// # Safety
/// `request` is writable; buffers are good for the elements named until the collective is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_igather(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: c_int,
    root: c_int,
    comm: *mut host_comm_t,
    request: *mut *mut host_coll_request_t,
) -> c_int {
    let given = Given {
        send,
        recv,
        count,
        datatype,
        root,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe { given.start("host_igather", Collective::Gather, comm, request) }
}

/// Brings every rank its `count` elements of the root's buffer.
///
/// # Safety
/// The buffers are good for the elements named, and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_scatter(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: c_int,
    root: c_int,
    comm: *mut host_comm_t,
) -> c_int {
    let given = Given {
        send,
        recv,
        count,
        datatype,
        root,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe { given.run("host_scatter", Collective::Scatter, comm) }
}

/// As host_scatter, nonblocking.
///
/// # Safety
/// `request` is writable; buffers are good for the elements named until the collective is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_iscatter(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: c_int,
    root: c_int,
    comm: *mut host_comm_t,
    request: *mut *mut host_coll_request_t,
) -> c_int {
    let given = Given {
        send,
        recv,
        count,
        datatype,
        root,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe { given.start("host_iscatter", Collective::Scatter, comm, request) }
}

/// Brings `count` elements of every rank to everyone, in the order of the ranks.
///
/// # Safety
/// The buffers are good for the elements named, and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_allgather(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: c_int,
    comm: *mut host_comm_t,
) -> c_int {
    let given = Given {
        send,
        recv,
        count,
        datatype,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe { given.run("host_allgather", Collective::Allgather, comm) }
}

/// As host_allgather, nonblocking.
///
/// # Safety
/// `request` is writable; buffers are good for the elements named until the collective is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_iallgather(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: c_int,
    comm: *mut host_comm_t,
    request: *mut *mut host_coll_request_t,
) -> c_int {
    let given = Given {
        send,
        recv,
        count,
        datatype,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe { given.start("host_iallgather", Collective::Allgather, comm, request) }
}

/// Brings every rank `count` elements of everyone.
///
/// # Safety
/// The buffers are good for the elements named, and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_alltoall(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: c_int,
    comm: *mut host_comm_t,
) -> c_int {
    let given = Given {
        send,
        recv,
        count,
        datatype,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe { given.run("host_alltoall", Collective::Alltoall, comm) }
}

/// As host_alltoall, nonblocking.
///
/// # Safety
/// `request` is writable; buffers are good for the elements named until the collective is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_ialltoall(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: c_int,
    comm: *mut host_comm_t,
    request: *mut *mut host_coll_request_t,
) -> c_int {
    let given = Given {
        send,
        recv,
        count,
        datatype,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe { given.start("host_ialltoall", Collective::Alltoall, comm, request) }
}
