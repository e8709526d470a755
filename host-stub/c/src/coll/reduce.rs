//! Collectives of communicators that compute.

use std::ffi::{c_int, c_void};

use host::coll::Collective;

use crate::coll::calls::Given;
use crate::coll::request::host_coll_request_t;
use crate::comm::communicator::host_comm_t;

/// Combines `count` elements of every rank; the root gets the result.
///
/// # Safety
/// The buffers are good for the elements named, and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_reduce(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    root: c_int,
    comm: *mut host_comm_t,
) -> c_int {
    let given = Given {
        send,
        recv,
        count,
        datatype,
        op,
        root,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe { given.run("host_reduce", Collective::Reduce, comm) }
}

/// As host_reduce, nonblocking.
///
/// # Safety
/// `request` is writable; buffers are good for the elements named until the collective is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_ireduce(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    root: c_int,
    comm: *mut host_comm_t,
    request: *mut *mut host_coll_request_t,
) -> c_int {
    let given = Given {
        send,
        recv,
        count,
        datatype,
        op,
        root,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe { given.start("host_ireduce", Collective::Reduce, comm, request) }
}

/// Combines `count` elements of every rank; everyone gets the result, the same bits.
///
/// # Safety
/// The buffers are good for the elements named, and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_allreduce(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    comm: *mut host_comm_t,
) -> c_int {
    let given = Given {
        send,
        recv,
        count,
        datatype,
        op,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe { given.run("host_allreduce", Collective::Allreduce, comm) }
}

/// As host_allreduce, nonblocking.
///
/// # Safety
/// `request` is writable; buffers are good for the elements named until the collective is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_iallreduce(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    comm: *mut host_comm_t,
    request: *mut *mut host_coll_request_t,
) -> c_int {
    let given = Given {
        send,
        recv,
        count,
        datatype,
        op,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe { given.start("host_iallreduce", Collective::Allreduce, comm, request) }
}

/// Combines as many elements of every rank as the counts add up to; rank `r` gets `counts[r]` of them.
///
/// # Safety
/// The buffers are good for the elements named, and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_reduce_scatter(
    send: *const c_void,
    recv: *mut c_void,
    counts: *const usize,
    datatype: c_int,
    op: c_int,
    comm: *mut host_comm_t,
) -> c_int {
    let given = Given {
        send,
        recv,
        counts,
        needs_counts: true,
        datatype,
        op,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe { given.run("host_reduce_scatter", Collective::ReduceScatter, comm) }
}

/// As host_reduce_scatter, nonblocking.
///
/// # Safety
/// `request` is writable; buffers are good for the elements named until the collective is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_ireduce_scatter(
    send: *const c_void,
    recv: *mut c_void,
    counts: *const usize,
    datatype: c_int,
    op: c_int,
    comm: *mut host_comm_t,
    request: *mut *mut host_coll_request_t,
) -> c_int {
    let given = Given {
        send,
        recv,
        counts,
        needs_counts: true,
        datatype,
        op,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe {
        given.start(
            "host_ireduce_scatter",
            Collective::ReduceScatter,
            comm,
            request,
        )
    }
}

/// As host_reduce_scatter, with `count` elements for every rank.
///
/// # Safety
/// The buffers are good for the elements named, and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_reduce_scatter_block(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    comm: *mut host_comm_t,
) -> c_int {
    let given = Given {
        send,
        recv,
        count,
        datatype,
        op,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe { given.run("host_reduce_scatter_block", Collective::ReduceScatter, comm) }
}

/// As host_reduce_scatter_block, nonblocking.
///
/// # Safety
/// `request` is writable; buffers are good for the elements named until the collective is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_ireduce_scatter_block(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    comm: *mut host_comm_t,
    request: *mut *mut host_coll_request_t,
) -> c_int {
    let given = Given {
        send,
        recv,
        count,
        datatype,
        op,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe {
        given.start(
            "host_ireduce_scatter_block",
            Collective::ReduceScatter,
            comm,
            request,
        )
    }
}

/// Combines `count` elements of the ranks up to this one.
///
/// # Safety
/// The buffers are good for the elements named, and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_scan(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    comm: *mut host_comm_t,
) -> c_int {
    let given = Given {
        send,
        recv,
        count,
        datatype,
        op,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe { given.run("host_scan", Collective::Scan, comm) }
}

/// As host_scan, nonblocking.
///
/// # Safety
/// `request` is writable; buffers are good for the elements named until the collective is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_iscan(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    comm: *mut host_comm_t,
    request: *mut *mut host_coll_request_t,
) -> c_int {
    let given = Given {
        send,
        recv,
        count,
        datatype,
        op,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe { given.start("host_iscan", Collective::Scan, comm, request) }
}

/// Combines `count` elements of the ranks before this one; rank 0's result is left as it is.
///
/// # Safety
/// The buffers are good for the elements named, and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_exscan(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    comm: *mut host_comm_t,
) -> c_int {
    let given = Given {
        send,
        recv,
        count,
        datatype,
        op,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe { given.run("host_exscan", Collective::Exscan, comm) }
}

/// As host_exscan, nonblocking.
///
/// # Safety
/// `request` is writable; buffers are good for the elements named until the collective is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_iexscan(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    comm: *mut host_comm_t,
    request: *mut *mut host_coll_request_t,
) -> c_int {
    let given = Given {
        send,
        recv,
        count,
        datatype,
        op,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe { given.start("host_iexscan", Collective::Exscan, comm, request) }
}
