//! Collectives among the neighbours of a topology.
//!
//! Buffers have a block for each neighbour, in the order of host_neighbors: of `send` for each destination, of `recv`
//! for each source. A block for a neighbour beyond an open border of a grid is left as it is. Nothing is in place.

use std::ffi::{c_int, c_void};

use host::coll::Collective;

use crate::coll::blocks::NO_BLOCKS;
use crate::coll::calls::Given;
use crate::coll::request::host_coll_request_t;
use crate::coll::table::host_blocks_t;
use crate::comm::communicator::host_comm_t;

/// Brings every neighbour that this rank sends to its `count` elements, and `count` of each that it receives from.
///
/// # Safety
/// The buffers are good for the elements named, and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_neighbor_allgather(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: c_int,
    comm: *mut host_comm_t,
) -> c_int {
    let call = Given {
        send,
        recv,
        count,
        datatype,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe {
        call.run(
            "host_neighbor_allgather",
            Collective::NeighborAllgather,
            comm,
        )
    }
}

/// As host_neighbor_allgather, nonblocking.
///
/// # Safety
/// `request` is writable; buffers are good for the elements named until the collective is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_ineighbor_allgather(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: c_int,
    comm: *mut host_comm_t,
    request: *mut *mut host_coll_request_t,
) -> c_int {
    let call = Given {
        send,
        recv,
        count,
        datatype,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe {
        call.start(
            "host_ineighbor_allgather",
            Collective::NeighborAllgather,
            comm,
            request,
        )
    }
}

/// Brings every neighbour that this rank sends to its `count` elements, and of source i `counts[i]` to
/// `displacements[i]` elements from the beginning of `recv`.
///
/// # Safety
/// The buffers are good for the elements named, and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_neighbor_allgatherv(
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
            ..NO_BLOCKS
        },
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe {
        call.run(
            "host_neighbor_allgatherv",
            Collective::NeighborAllgatherv,
            comm,
        )
    }
}

/// As host_neighbor_allgatherv, nonblocking. The lists are read before the call returns.
///
/// # Safety
/// `request` is writable; buffers are good for the elements named until the collective is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_ineighbor_allgatherv(
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
            ..NO_BLOCKS
        },
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe {
        call.start(
            "host_ineighbor_allgatherv",
            Collective::NeighborAllgatherv,
            comm,
            request,
        )
    }
}

/// Brings every neighbour that this rank sends to `count` elements of its own, and `count` of each that it receives
/// from. What leaves along a dimension of a grid forwards arrives in the block of the neighbour behind, also where
/// both neighbours are one rank.
///
/// # Safety
/// The buffers are good for the elements named, and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_neighbor_alltoall(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: c_int,
    comm: *mut host_comm_t,
) -> c_int {
    let call = Given {
        send,
        recv,
        count,
        datatype,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe { call.run("host_neighbor_alltoall", Collective::NeighborAlltoall, comm) }
}

/// As host_neighbor_alltoall, nonblocking.
///
/// # Safety
/// `request` is writable; buffers are good for the elements named until the collective is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_ineighbor_alltoall(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: c_int,
    comm: *mut host_comm_t,
    request: *mut *mut host_coll_request_t,
) -> c_int {
    let call = Given {
        send,
        recv,
        count,
        datatype,
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe {
        call.start(
            "host_ineighbor_alltoall",
            Collective::NeighborAlltoall,
            comm,
            request,
        )
    }
}

/// As host_neighbor_alltoall, with `send_counts[i]` elements for destination i and `recv_counts[i]` of source i.
/// Displacements are in elements.
///
/// # Safety
/// The buffers are good for the elements named, and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_neighbor_alltoallv(
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
            ..NO_BLOCKS
        },
        taken: host_blocks_t {
            counts: recv_counts,
            displacements: recv_displacements,
            ..NO_BLOCKS
        },
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe {
        call.run(
            "host_neighbor_alltoallv",
            Collective::NeighborAlltoallv,
            comm,
        )
    }
}

/// As host_neighbor_alltoallv, nonblocking. The lists are read before the call returns.
///
/// # Safety
/// `request` is writable; buffers are good for the elements named until the collective is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_ineighbor_alltoallv(
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
            ..NO_BLOCKS
        },
        taken: host_blocks_t {
            counts: recv_counts,
            displacements: recv_displacements,
            ..NO_BLOCKS
        },
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe {
        call.start(
            "host_ineighbor_alltoallv",
            Collective::NeighborAlltoallv,
            comm,
            request,
        )
    }
}

/// As host_neighbor_alltoallv, with a type for each block, and displacements in bytes.
///
/// # Safety
/// The buffers are good for the elements named, and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_neighbor_alltoallw(
    send: *const c_void,
    send_counts: *const usize,
    send_displacements: *const usize,
    send_types: *const c_int,
    recv: *mut c_void,
    recv_counts: *const usize,
    recv_displacements: *const usize,
    recv_types: *const c_int,
    comm: *mut host_comm_t,
) -> c_int {
    let call = Given {
        send,
        recv,
        given: host_blocks_t {
            counts: send_counts,
            displacements: send_displacements,
            types: send_types,
        },
        taken: host_blocks_t {
            counts: recv_counts,
            displacements: recv_displacements,
            types: recv_types,
        },
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe {
        call.run(
            "host_neighbor_alltoallw",
            Collective::NeighborAlltoallw,
            comm,
        )
    }
}

/// As host_neighbor_alltoallw, nonblocking. The lists are read before the call returns.
///
/// # Safety
/// `request` is writable; buffers are good for the elements named until the collective is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_ineighbor_alltoallw(
    send: *const c_void,
    send_counts: *const usize,
    send_displacements: *const usize,
    send_types: *const c_int,
    recv: *mut c_void,
    recv_counts: *const usize,
    recv_displacements: *const usize,
    recv_types: *const c_int,
    comm: *mut host_comm_t,
    request: *mut *mut host_coll_request_t,
) -> c_int {
    let call = Given {
        send,
        recv,
        given: host_blocks_t {
            counts: send_counts,
            displacements: send_displacements,
            types: send_types,
        },
        taken: host_blocks_t {
            counts: recv_counts,
            displacements: recv_displacements,
            types: recv_types,
        },
        ..Given::default()
    };
    // SAFETY: passed on.
    unsafe {
        call.start(
            "host_ineighbor_alltoallw",
            Collective::NeighborAlltoallw,
            comm,
            request,
        )
    }
}
