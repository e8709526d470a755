//! Collectives whose blocks lie where lists say, the v forms of MPI.
//!
//! Lists have one value for each rank. Blocks that are received do not overlap.

use std::ffi::{c_int, c_void};

use host::coll::Collective;

use crate::coll::calls::Given;
use crate::coll::request::host_coll_request_t;
use crate::coll::table::host_blocks_t;
use crate::comm::communicator::host_comm_t;

/// Brings `count` elements of every rank to everyone, who gets `counts[r]` of rank r and places them
/// `displacements[r]` elements from the beginning of `recv`. The counts are the same at every rank.
///
/// # Safety
/// The buffers are good for the elements named, and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_allgatherv(
    send: *const c_void,
    count: usize,
    recv: *mut c_void,
    counts: *const usize,
    displacements: *const usize,
    datatype: c_int,
    comm: *mut host_comm_t,
) -> c_int {
    let call = Given {
        send,
        count,
        recv,
        datatype,
        taken: host_blocks_t {
            counts,
            displacements,
        },
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe { call.run("host_allgatherv", Collective::Allgatherv, comm) }
}

/// As host_allgatherv, nonblocking. The lists are read before the call returns.
///
/// # Safety
/// `request` is writable; buffers are good for the elements named until the collective is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_iallgatherv(
    send: *const c_void,
    count: usize,
    recv: *mut c_void,
    counts: *const usize,
    displacements: *const usize,
    datatype: c_int,
    comm: *mut host_comm_t,
    request: *mut *mut host_coll_request_t,
) -> c_int {
    let call = Given {
        send,
        count,
        recv,
        datatype,
        taken: host_blocks_t {
            counts,
            displacements,
        },
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe { call.start("host_iallgatherv", Collective::Allgatherv, comm, request) }
}

/// Brings every rank elements of everyone: `send_counts[r]` of them go to rank r, and `recv_counts[r]` come from it.
/// Displacements are in elements. In place, `send` and its lists are NULL.
///
/// # Safety
/// The buffers are good for the elements named, and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_alltoallv(
    send: *const c_void,
    send_counts: *const usize,
    send_displacements: *const usize,
    recv: *mut c_void,
    recv_counts: *const usize,
    recv_displacements: *const usize,
    datatype: c_int,
    comm: *mut host_comm_t,
) -> c_int {
    let call = Given {
        send,
        recv,
        datatype,
        given: host_blocks_t {
            counts: send_counts,
            displacements: send_displacements,
        },
        taken: host_blocks_t {
            counts: recv_counts,
            displacements: recv_displacements,
        },
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe { call.run("host_alltoallv", Collective::Alltoallv, comm) }
}

/// As host_alltoallv, nonblocking. The lists are read before the call returns.
///
/// # Safety
/// `request` is writable; buffers are good for the elements named until the collective is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_ialltoallv(
    send: *const c_void,
    send_counts: *const usize,
    send_displacements: *const usize,
    recv: *mut c_void,
    recv_counts: *const usize,
    recv_displacements: *const usize,
    datatype: c_int,
    comm: *mut host_comm_t,
    request: *mut *mut host_coll_request_t,
) -> c_int {
    let call = Given {
        send,
        recv,
        datatype,
        given: host_blocks_t {
            counts: send_counts,
            displacements: send_displacements,
        },
        taken: host_blocks_t {
            counts: recv_counts,
            displacements: recv_displacements,
        },
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe { call.start("host_ialltoallv", Collective::Alltoallv, comm, request) }
}
