/*
 * The calls of host_stub.h by names of their own, which includes this file. Each fills the arguments of host_coll or
 * host_coll_start.
 *
 * Collectives: buffers are elements of `datatype`. Where `send` is NULL, the operand is where the result will be. Every
 * rank of a communicator calls its collectives in the same order, with the same arguments. The form with an i in front
 * is nonblocking: host_coll_wait and the like end its request, and the buffers are the collective's until then.
 */
#ifndef HOST_CALLS_H
#define HOST_CALLS_H

#include <string.h>

#include "host_stub.h"

/* The arguments of a collective, without lists. */
static inline host_coll_args_t host_coll_args(const void *send, void *recv, size_t count, int datatype, int op,
                                              int root) {
    host_coll_args_t args;
    memset(&args, 0, sizeof args);
    args.magic = HOST_COLL_ARGS_MAGIC;
    args.size = sizeof args;
    args.send = send;
    args.recv = recv;
    args.count = count;
    args.datatype = datatype;
    args.op = op;
    args.root = root;
    return args;
}

/* Waits until all ranks of a communicator are here. */
static inline int host_comm_barrier(host_comm_t *comm) {
    host_coll_args_t args = host_coll_args(NULL, NULL, 0, HOST_UINT8, HOST_SUM, 0);
    return host_coll(comm, HOST_COLL_BARRIER, &args);
}

static inline int host_comm_ibarrier(host_comm_t *comm, host_coll_request_t **request) {
    host_coll_args_t args = host_coll_args(NULL, NULL, 0, HOST_UINT8, HOST_SUM, 0);
    return host_coll_start(comm, HOST_COLL_BARRIER, &args, request);
}

/* Copies `count` elements from the root's buffer to everyone's. */
static inline int host_bcast(void *buffer, size_t count, int datatype, int root, host_comm_t *comm)
                             {
    host_coll_args_t args = host_coll_args(NULL, buffer, count, datatype, HOST_SUM, root);
    return host_coll(comm, HOST_COLL_BCAST, &args);
}

static inline int host_ibcast(void *buffer, size_t count, int datatype, int root, host_comm_t *comm,
                              host_coll_request_t **request) {
    host_coll_args_t args = host_coll_args(NULL, buffer, count, datatype, HOST_SUM, root);
    return host_coll_start(comm, HOST_COLL_BCAST, &args, request);
}

/* Combines `count` elements of every rank; the root gets the result. */
static inline int host_reduce(const void *send, void *recv, size_t count, int datatype, int op, int
                              root, host_comm_t *comm) {
    host_coll_args_t args = host_coll_args(send, recv, count, datatype, op, root);
    return host_coll(comm, HOST_COLL_REDUCE, &args);
}

static inline int host_ireduce(const void *send, void *recv, size_t count, int datatype, int op, int
                               root, host_comm_t *comm, host_coll_request_t **request) {
    host_coll_args_t args = host_coll_args(send, recv, count, datatype, op, root);
    return host_coll_start(comm, HOST_COLL_REDUCE, &args, request);
}

/* Combines `count` elements of every rank; everyone gets the result, the same bits. */
static inline int host_allreduce(const void *send, void *recv, size_t count, int datatype, int op,
                                 host_comm_t *comm) {
    host_coll_args_t args = host_coll_args(send, recv, count, datatype, op, 0);
    return host_coll(comm, HOST_COLL_ALLREDUCE, &args);
}

static inline int host_iallreduce(const void *send, void *recv, size_t count, int datatype, int op,
                                  host_comm_t *comm, host_coll_request_t **request) {
    host_coll_args_t args = host_coll_args(send, recv, count, datatype, op, 0);
    return host_coll_start(comm, HOST_COLL_ALLREDUCE, &args, request);
}

/* Brings `count` elements of every rank to the root, in the order of the ranks. */
static inline int host_gather(const void *send, void *recv, size_t count, int datatype, int root,
                              host_comm_t *comm) {
    host_coll_args_t args = host_coll_args(send, recv, count, datatype, HOST_SUM, root);
    return host_coll(comm, HOST_COLL_GATHER, &args);
}

static inline int host_igather(const void *send, void *recv, size_t count, int datatype, int root,
                               host_comm_t *comm, host_coll_request_t **request) {
    host_coll_args_t args = host_coll_args(send, recv, count, datatype, HOST_SUM, root);
    return host_coll_start(comm, HOST_COLL_GATHER, &args, request);
}

/* Brings every rank its `count` elements of the root's buffer. */
static inline int host_scatter(const void *send, void *recv, size_t count, int datatype, int root,
                               host_comm_t *comm) {
    host_coll_args_t args = host_coll_args(send, recv, count, datatype, HOST_SUM, root);
    return host_coll(comm, HOST_COLL_SCATTER, &args);
}

static inline int host_iscatter(const void *send, void *recv, size_t count, int datatype, int root,
                                host_comm_t *comm, host_coll_request_t **request) {
    host_coll_args_t args = host_coll_args(send, recv, count, datatype, HOST_SUM, root);
    return host_coll_start(comm, HOST_COLL_SCATTER, &args, request);
}

/* Brings `count` elements of every rank to everyone, in the order of the ranks. */
static inline int host_allgather(const void *send, void *recv, size_t count, int datatype,
                                 host_comm_t *comm) {
    host_coll_args_t args = host_coll_args(send, recv, count, datatype, HOST_SUM, 0);
    return host_coll(comm, HOST_COLL_ALLGATHER, &args);
}

static inline int host_iallgather(const void *send, void *recv, size_t count, int datatype,
                                  host_comm_t *comm, host_coll_request_t **request) {
    host_coll_args_t args = host_coll_args(send, recv, count, datatype, HOST_SUM, 0);
    return host_coll_start(comm, HOST_COLL_ALLGATHER, &args, request);
}

/* Brings every rank `count` elements of everyone. */
static inline int host_alltoall(const void *send, void *recv, size_t count, int datatype,
                                host_comm_t *comm) {
    host_coll_args_t args = host_coll_args(send, recv, count, datatype, HOST_SUM, 0);
    return host_coll(comm, HOST_COLL_ALLTOALL, &args);
}

static inline int host_ialltoall(const void *send, void *recv, size_t count, int datatype,
                                 host_comm_t *comm, host_coll_request_t **request) {
    host_coll_args_t args = host_coll_args(send, recv, count, datatype, HOST_SUM, 0);
    return host_coll_start(comm, HOST_COLL_ALLTOALL, &args, request);
}

/* Combines as many elements of every rank as the counts add up to; rank r gets `counts[r]` of them. */
static inline int host_reduce_scatter(const void *send, void *recv, const size_t *counts, int
                                      datatype, int op, host_comm_t *comm) {
    host_coll_args_t args = host_coll_args(send, recv, 0, datatype, op, 0);
    args.counts = counts;
    /* Without counts it would be a reduction of nothing: refused. */
    return host_coll(comm, HOST_COLL_REDUCE_SCATTER, counts ? &args : NULL);
}

static inline int host_ireduce_scatter(const void *send, void *recv, const size_t *counts, int
                                       datatype, int op, host_comm_t *comm, host_coll_request_t
                                       **request) {
    host_coll_args_t args = host_coll_args(send, recv, 0, datatype, op, 0);
    args.counts = counts;
    /* Without counts it would be a reduction of nothing: refused. */
    return host_coll_start(comm, HOST_COLL_REDUCE_SCATTER, counts ? &args : NULL, request);
}

/* As host_reduce_scatter, with `count` elements for every rank. */
static inline int host_reduce_scatter_block(const void *send, void *recv, size_t count, int
                                            datatype, int op, host_comm_t *comm) {
    host_coll_args_t args = host_coll_args(send, recv, count, datatype, op, 0);
    return host_coll(comm, HOST_COLL_REDUCE_SCATTER, &args);
}

static inline int host_ireduce_scatter_block(const void *send, void *recv, size_t count, int
                                             datatype, int op, host_comm_t *comm,
                                             host_coll_request_t **request) {
    host_coll_args_t args = host_coll_args(send, recv, count, datatype, op, 0);
    return host_coll_start(comm, HOST_COLL_REDUCE_SCATTER, &args, request);
}

/* Combines `count` elements of the ranks up to this one. */
static inline int host_scan(const void *send, void *recv, size_t count, int datatype, int op,
                            host_comm_t *comm) {
    host_coll_args_t args = host_coll_args(send, recv, count, datatype, op, 0);
    return host_coll(comm, HOST_COLL_SCAN, &args);
}

static inline int host_iscan(const void *send, void *recv, size_t count, int datatype, int op,
                             host_comm_t *comm, host_coll_request_t **request) {
    host_coll_args_t args = host_coll_args(send, recv, count, datatype, op, 0);
    return host_coll_start(comm, HOST_COLL_SCAN, &args, request);
}

/* Combines `count` elements of the ranks before this one; rank 0's result is left as it is. */
static inline int host_exscan(const void *send, void *recv, size_t count, int datatype, int op,
                              host_comm_t *comm) {
    host_coll_args_t args = host_coll_args(send, recv, count, datatype, op, 0);
    return host_coll(comm, HOST_COLL_EXSCAN, &args);
}

static inline int host_iexscan(const void *send, void *recv, size_t count, int datatype, int op,
                               host_comm_t *comm, host_coll_request_t **request) {
    host_coll_args_t args = host_coll_args(send, recv, count, datatype, op, 0);
    return host_coll_start(comm, HOST_COLL_EXSCAN, &args, request);
}

/* Brings `count` elements of every rank to everyone, who gets `counts[r]` of rank r and places them
 * `displacements[r]` elements from the beginning of `recv`. The counts are the same at every rank. */
static inline int host_allgatherv(const void *send, size_t count, void *recv, const size_t *counts,
                                  const size_t *displacements, int datatype, host_comm_t *comm) {
    host_coll_args_t args = host_coll_args(send, recv, count, datatype, HOST_SUM, 0);
    args.taken.counts = counts;
    args.taken.displacements = displacements;
    return host_coll(comm, HOST_COLL_ALLGATHERV, &args);
}

static inline int host_iallgatherv(const void *send, size_t count, void *recv, const size_t *counts,
                                   const size_t *displacements, int datatype, host_comm_t *comm,
                                   host_coll_request_t **request) {
    host_coll_args_t args = host_coll_args(send, recv, count, datatype, HOST_SUM, 0);
    args.taken.counts = counts;
    args.taken.displacements = displacements;
    return host_coll_start(comm, HOST_COLL_ALLGATHERV, &args, request);
}

/* Brings every rank elements of everyone: `send_counts[r]` of them go to rank r, and `recv_counts[r]` come
 * from it. Displacements are in elements. In place, `send` and its lists are NULL. */
static inline int host_alltoallv(const void *send, const size_t *send_counts, const size_t
                                 *send_displacements, void *recv, const size_t *recv_counts, const
                                 size_t *recv_displacements, int datatype, host_comm_t *comm) {
    host_coll_args_t args = host_coll_args(send, recv, 0, datatype, HOST_SUM, 0);
    args.given.counts = send_counts;
    args.given.displacements = send_displacements;
    args.taken.counts = recv_counts;
    args.taken.displacements = recv_displacements;
    return host_coll(comm, HOST_COLL_ALLTOALLV, &args);
}

static inline int host_ialltoallv(const void *send, const size_t *send_counts, const size_t
                                  *send_displacements, void *recv, const size_t *recv_counts, const
                                  size_t *recv_displacements, int datatype, host_comm_t *comm,
                                  host_coll_request_t **request) {
    host_coll_args_t args = host_coll_args(send, recv, 0, datatype, HOST_SUM, 0);
    args.given.counts = send_counts;
    args.given.displacements = send_displacements;
    args.taken.counts = recv_counts;
    args.taken.displacements = recv_displacements;
    return host_coll_start(comm, HOST_COLL_ALLTOALLV, &args, request);
}

#endif
