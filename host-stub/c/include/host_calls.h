/*
 * One function for each call of host_stub.h, which includes this file. Each function fills the arguments of
 * host_coll, host_coll_start, host_rma, host_rma_start, host_win_make, host_win_synchronize, or a call of many
 * with one.
 *
 * Collectives: buffers hold elements of `datatype`. If `send` is NULL, the operand lies in the result buffer. Every
 * rank of a communicator calls its collectives in the same order, with the same arguments. The form with an i in front
 * is nonblocking: host_coll_wait, host_coll_waitall or host_coll_test ends its request. Until then the buffers belong
 * to the collective.
 *
 * Transfers and atomic updates of windows: the form with an r in front returns a request, which host_wait,
 * host_waitall, host_waitany or host_test ends. This form is for lock and lock_all epochs only.
 */
#ifndef HOST_CALLS_H
#define HOST_CALLS_H

#include <string.h>

#include "host_stub.h"

/* Joins the job in which this process was started, or makes a job of one process. Several threads may
 * call at the same time. */
static inline int host_init(void) { return host_init_thread(HOST_THREAD_MULTIPLE, NULL); }

/* Makes a communicator for each node, with its ranks in the order of their keys; collective. */
static inline int host_comm_split_by_node(host_comm_t *parent, int key, host_comm_t **made) {
    int node = host_comm_node(parent, host_comm_rank(parent));
    return node < 0 ? node : host_comm_split(parent, node, key, made);
}

/* Waits until a collective is done, and sets the handle to NULL. */
static inline int host_coll_wait(host_coll_request_t **request) { return host_coll_waitall(1, request); }

/* Waits until an operation is complete, and sets the handle to NULL. HOST_ERR_LEVEL: the handle is unchanged. */
static inline int host_wait(host_request_t **request) { return host_waitall(1, request); }

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

/* Copies `count` elements from the root's buffer to the buffers of all ranks. */
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
static inline int host_reduce(const void *send, void *recv, size_t count, int datatype, int op,
                              int root, host_comm_t *comm) {
    host_coll_args_t args = host_coll_args(send, recv, count, datatype, op, root);
    return host_coll(comm, HOST_COLL_REDUCE, &args);
}

static inline int host_ireduce(const void *send, void *recv, size_t count, int datatype, int op,
                               int root, host_comm_t *comm, host_coll_request_t **request) {
    host_coll_args_t args = host_coll_args(send, recv, count, datatype, op, root);
    return host_coll_start(comm, HOST_COLL_REDUCE, &args, request);
}

/* Combines `count` elements of every rank; all ranks get the same result, bit for bit. */
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

/* Brings `count` elements of every rank to all ranks, in the order of the ranks. */
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

/* Brings every rank `count` elements of each rank. */
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

/* Combines the elements of all ranks. Each rank contributes the sum of the counts; rank r gets
 * `counts[r]` elements of the result. */
static inline int host_reduce_scatter(const void *send, void *recv, const size_t *counts,
                                      int datatype, int op, host_comm_t *comm) {
    host_coll_args_t args = host_coll_args(send, recv, 0, datatype, op, 0);
    args.counts = counts;
    /* Without counts it would be a reduction of nothing: refused. */
    return host_coll(comm, HOST_COLL_REDUCE_SCATTER, counts ? &args : NULL);
}

static inline int host_ireduce_scatter(const void *send, void *recv, const size_t *counts,
                                       int datatype, int op, host_comm_t *comm,
                                       host_coll_request_t **request) {
    host_coll_args_t args = host_coll_args(send, recv, 0, datatype, op, 0);
    args.counts = counts;
    /* Without counts it would be a reduction of nothing: refused. */
    return host_coll_start(comm, HOST_COLL_REDUCE_SCATTER, counts ? &args : NULL, request);
}

/* As host_reduce_scatter, with `count` elements for every rank. */
static inline int host_reduce_scatter_block(const void *send, void *recv, size_t count,
                                            int datatype, int op, host_comm_t *comm) {
    host_coll_args_t args = host_coll_args(send, recv, count, datatype, op, 0);
    return host_coll(comm, HOST_COLL_REDUCE_SCATTER, &args);
}

static inline int host_ireduce_scatter_block(const void *send, void *recv, size_t count,
                                             int datatype, int op, host_comm_t *comm,
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

/* Combines `count` elements of the ranks before this one; rank 0's result is unchanged. */
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

/* Makes a window of `size` zeroed bytes at this rank, over a communicator, NULL for all ranks of the job, with hints or NULL;
 * collective. Displacements at this rank are in units of `unit` bytes. */
static inline int host_win_allocate_over(host_comm_t *comm, size_t size, uint32_t unit, host_info_t *info,
                                         host_win_t **win) {
    return host_win_make(HOST_WIN_ALLOCATE, comm, NULL, size, unit, info, win);
}

static inline int host_win_allocate(size_t size, uint32_t unit, host_win_t **win) {
    return host_win_allocate_over(NULL, size, unit, NULL, win);
}

/* Makes a window of the caller's memory, which must stay valid until the window is freed; collective, as
 * above. */
static inline int host_win_create_over(host_comm_t *comm, void *base, size_t size, uint32_t unit,
                                       host_info_t *info, host_win_t **win) {
    return host_win_make(HOST_WIN_CREATE, comm, base, size, unit, info, win);
}

static inline int host_win_create(void *base, size_t size, uint32_t unit, host_win_t **win) {
    return host_win_create_over(NULL, base, size, unit, NULL, win);
}

/* Makes a window of `size` zeroed bytes at this rank, which every rank may access by loads and stores (see
 * host_win_shared_query); collective over ranks that share a node. */
static inline int host_win_allocate_shared(host_comm_t *comm, size_t size, uint32_t unit, host_info_t *info,
                                           host_win_t **win) {
    return host_win_make(HOST_WIN_ALLOCATE_SHARED, comm, NULL, size, unit, info, win);
}

/* Makes a window without memory, to which ranks attach memory; collective. Displacements are addresses in the
 * target's process. */
static inline int host_win_create_dynamic(host_comm_t *comm, host_info_t *info, host_win_t **win) {
    return host_win_make(HOST_WIN_DYNAMIC, comm, NULL, 0, 1, info, win);
}

/* Ends the open fence epoch and begins the next, with HOST_MODE_*; collective. */
static inline int host_win_fence_with(uint32_t assertion, host_win_t *win) {
    return host_win_synchronize(HOST_RMA_FENCE, 0, 0, assertion, win);
}

static inline int host_win_fence(host_win_t *win) { return host_win_fence_with(0, win); }

/* Ends the open fence epoch, and begins no other. */
static inline int host_win_fence_end(host_win_t *win) { return host_win_fence_with(HOST_MODE_NOSUCCEED, win); }

/* Opens an access epoch to one rank: HOST_LOCK_SHARED or HOST_LOCK_EXCLUSIVE, with 0 or HOST_MODE_NOCHECK. */
static inline int host_win_lock_with(int lock, int target, uint32_t assertion, host_win_t *win) {
    return host_win_synchronize(HOST_RMA_LOCK, lock, target, assertion, win);
}

static inline int host_win_lock(int lock, int target, host_win_t *win) {
    return host_win_lock_with(lock, target, 0, win);
}

/* Completes operations to a rank, and closes the epoch of host_win_lock. */
static inline int host_win_unlock(int target, host_win_t *win) {
    return host_win_synchronize(HOST_RMA_UNLOCK, 0, target, 0, win);
}

/* Opens an access epoch to every rank, with 0 or HOST_MODE_NOCHECK. */
static inline int host_win_lock_all_with(uint32_t assertion, host_win_t *win) {
    return host_win_synchronize(HOST_RMA_LOCK_ALL, 0, 0, assertion, win);
}

static inline int host_win_lock_all(host_win_t *win) { return host_win_lock_all_with(0, win); }

/* Completes all operations, and closes the epoch of host_win_lock_all. */
static inline int host_win_unlock_all(host_win_t *win) {
    return host_win_synchronize(HOST_RMA_UNLOCK_ALL, 0, 0, 0, win);
}

/* Completes this rank's operations to a rank, at target and origin. For lock and lock_all epochs, like the three
 * functions below. */
static inline int host_win_flush(int target, host_win_t *win) {
    return host_win_synchronize(HOST_RMA_FLUSH, 0, target, 0, win);
}

/* The same for all ranks. */
static inline int host_win_flush_all(host_win_t *win) {
    return host_win_synchronize(HOST_RMA_FLUSH_ALL, 0, 0, 0, win);
}

/* Completes this rank's operations to a rank at the origin: their buffers may be reused. */
static inline int host_win_flush_local(int target, host_win_t *win) {
    return host_win_synchronize(HOST_RMA_FLUSH_LOCAL, 0, target, 0, win);
}

/* The same for all ranks. */
static inline int host_win_flush_local_all(host_win_t *win) {
    return host_win_synchronize(HOST_RMA_FLUSH_LOCAL_ALL, 0, 0, 0, win);
}

/* Completes the operations to the group of host_win_start, notifies the group, and closes the
 * epoch. */
static inline int host_win_complete(host_win_t *win) {
    return host_win_synchronize(HOST_RMA_COMPLETE, 0, 0, 0, win);
}

/* Waits until the group of host_win_post has completed, and closes the exposure, also if the wait fails. */
static inline int host_win_wait(host_win_t *win) {
    return host_win_synchronize(HOST_RMA_WAIT, 0, 0, 0, win);
}

/* Orders this rank's local accesses of its memory with those of others, and makes progress. */
static inline int host_win_sync(host_win_t *win) {
    return host_win_synchronize(HOST_RMA_SYNC, 0, 0, 0, win);
}

/* The arguments of a transfer between `origin` and a target's window, at a displacement in its units. */
static inline host_rma_args_t host_rma_args(const void *origin, size_t count, int datatype, int target,
                                            uint64_t displacement) {
    host_rma_args_t args;
    memset(&args, 0, sizeof args);
    args.magic = HOST_RMA_ARGS_MAGIC;
    args.size = sizeof args;
    args.origin = (void *)origin;
    args.count = count;
    args.datatype = datatype;
    args.target = target;
    args.displacement = displacement;
    return args;
}

/* Writes `bytes` bytes to a target's window. `origin` is unchanged until the operation is complete. */
static inline int host_put(const void *origin, size_t bytes, int target, uint64_t displacement,
                           host_win_t *win) {
    host_rma_args_t args = host_rma_args(origin, bytes, HOST_UINT8, target, displacement);
    return host_rma(HOST_RMA_PUT, &args, win);
}

static inline int host_rput(const void *origin, size_t bytes, int target, uint64_t displacement,
                            host_win_t *win, host_request_t **request) {
    host_rma_args_t args = host_rma_args(origin, bytes, HOST_UINT8, target, displacement);
    return host_rma_start(HOST_RMA_PUT, &args, win, request);
}

/* Reads `bytes` bytes of a target's window. Nothing else uses `origin` until the operation is complete. */
static inline int host_get(void *origin, size_t bytes, int target, uint64_t displacement,
                           host_win_t *win) {
    host_rma_args_t args = host_rma_args(origin, bytes, HOST_UINT8, target, displacement);
    return host_rma(HOST_RMA_GET, &args, win);
}

static inline int host_rget(void *origin, size_t bytes, int target, uint64_t displacement,
                            host_win_t *win, host_request_t **request) {
    host_rma_args_t args = host_rma_args(origin, bytes, HOST_UINT8, target, displacement);
    return host_rma_start(HOST_RMA_GET, &args, win, request);
}

/* As host_put, of `count` elements of a type. With HOST_ON_DEVICE added to the type, host memory is refused. */
static inline int host_put_typed(const void *origin, size_t count, int datatype, int target,
                                 uint64_t displacement, host_win_t *win) {
    host_rma_args_t args = host_rma_args(origin, count, datatype, target, displacement);
    return host_rma(HOST_RMA_PUT, &args, win);
}

static inline int host_rput_typed(const void *origin, size_t count, int datatype, int target,
                                  uint64_t displacement, host_win_t *win, host_request_t **request)
                                  {
    host_rma_args_t args = host_rma_args(origin, count, datatype, target, displacement);
    return host_rma_start(HOST_RMA_PUT, &args, win, request);
}

/* As host_get, of `count` elements of a type. With HOST_ON_DEVICE added to the type, host memory is refused. */
static inline int host_get_typed(void *origin, size_t count, int datatype, int target,
                                 uint64_t displacement, host_win_t *win) {
    host_rma_args_t args = host_rma_args(origin, count, datatype, target, displacement);
    return host_rma(HOST_RMA_GET, &args, win);
}

static inline int host_rget_typed(void *origin, size_t count, int datatype, int target,
                                  uint64_t displacement, host_win_t *win,
                                  host_request_t **request) {
    host_rma_args_t args = host_rma_args(origin, count, datatype, target, displacement);
    return host_rma_start(HOST_RMA_GET, &args, win, request);
}

/* As host_put, and adds one to a counter of the target, 0 to HOST_WIN_COUNTERS - 1, once the bytes are visible there.
 * The counter tells how many puts have arrived completely, and nothing about their order. */
static inline int host_put_notify(const void *origin, size_t bytes, int target,
                                  uint64_t displacement, int counter, host_win_t *win) {
    host_rma_args_t args = host_rma_args(origin, bytes, HOST_UINT8, target, displacement);
    args.counter = counter;
    return host_rma(HOST_RMA_PUT_NOTIFY, &args, win);
}

/* As host_put, between two layouts of the same type and number of elements. `displacement` is where the target's layout
 * begins. A NULL layout is refused, because SIZE_MAX contiguous elements exceed any memory. */
static inline int host_put_layout(const void *origin, const host_layout_t *origin_layout,
                                  int target, uint64_t displacement,
                                  const host_layout_t *target_layout, host_win_t *win) {
    host_rma_args_t args = host_rma_args(origin, SIZE_MAX, HOST_UINT8, target, displacement);
    args.origin_layout = origin_layout;
    args.target_layout = target_layout;
    return host_rma(HOST_RMA_PUT, &args, win);
}

/* As host_get, between two layouts of the same type and number of elements. */
static inline int host_get_layout(void *origin, const host_layout_t *origin_layout, int target,
                                  uint64_t displacement, const host_layout_t *target_layout,
                                  host_win_t *win) {
    host_rma_args_t args = host_rma_args(origin, SIZE_MAX, HOST_UINT8, target, displacement);
    args.origin_layout = origin_layout;
    args.target_layout = target_layout;
    return host_rma(HOST_RMA_GET, &args, win);
}

/* As host_accumulate, between two layouts of the same type and number of elements. */
static inline int host_accumulate_layout(const void *origin, const host_layout_t *origin_layout,
                                         int op, int target, uint64_t displacement,
                                         const host_layout_t *target_layout, host_win_t *win) {
    host_rma_args_t args = host_rma_args(origin, SIZE_MAX, HOST_UINT8, target, displacement);
    args.origin_layout = origin_layout;
    args.target_layout = target_layout;
    args.op = op;
    return host_rma(HOST_RMA_ACCUMULATE, &args, win);
}

/* `target = target op origin`, each element atomically with respect to other accumulates. Nothing else uses the buffers
 * of atomic updates until they are complete. */
static inline int host_accumulate(const void *origin, size_t count, int datatype, int op,
                                  int target, uint64_t displacement, host_win_t *win) {
    host_rma_args_t args = host_rma_args(origin, count, datatype, target, displacement);
    args.op = op;
    return host_rma(HOST_RMA_ACCUMULATE, &args, win);
}

static inline int host_raccumulate(const void *origin, size_t count, int datatype, int op,
                                   int target, uint64_t displacement, host_win_t *win,
                                   host_request_t **request) {
    host_rma_args_t args = host_rma_args(origin, count, datatype, target, displacement);
    args.op = op;
    return host_rma_start(HOST_RMA_ACCUMULATE, &args, win, request);
}

/* As host_accumulate, and fetches the target's old value to `result`. `origin` may be NULL with HOST_NO_OP. */
static inline int host_get_accumulate(const void *origin, void *result, size_t count, int datatype,
                                      int op, int target, uint64_t displacement, host_win_t *win) {
    host_rma_args_t args = host_rma_args(origin, count, datatype, target, displacement);
    args.result = result;
    args.op = op;
    return host_rma(HOST_RMA_GET_ACCUMULATE, &args, win);
}

static inline int host_rget_accumulate(const void *origin, void *result, size_t count, int datatype,
                                       int op, int target, uint64_t displacement, host_win_t *win,
                                       host_request_t **request) {
    host_rma_args_t args = host_rma_args(origin, count, datatype, target, displacement);
    args.result = result;
    args.op = op;
    return host_rma_start(HOST_RMA_GET_ACCUMULATE, &args, win, request);
}

/* As host_get_accumulate, for one element. */
static inline int host_fetch_and_op(const void *origin, void *result, int datatype, int op,
                                    int target, uint64_t displacement, host_win_t *win) {
    host_rma_args_t args = host_rma_args(origin, 1, datatype, target, displacement);
    args.result = result;
    args.op = op;
    return host_rma(HOST_RMA_FETCH_AND_OP, &args, win);
}

/* Writes the element at `origin` to the target if the target's element equals the element at `compare`, and fetches
 * the target's old element. Integers only. */
static inline int host_compare_and_swap(const void *origin, const void *compare, void *result,
                                        int datatype, int target, uint64_t displacement,
                                        host_win_t *win) {
    host_rma_args_t args = host_rma_args(origin, 1, datatype, target, displacement);
    args.compare = compare;
    args.result = result;
    return host_rma(HOST_RMA_COMPARE_AND_SWAP, &args, win);
}

/* Brings `count` elements of every rank to all ranks. Each rank gets `counts[r]` elements of rank r,
 * and places them `displacements[r]` elements from the beginning of `recv`. The counts are the same
 * at every rank. */
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

/* Brings every rank elements of all ranks: `send_counts[r]` elements go to rank r, and `recv_counts[r]`
 * elements come from it. Displacements are in elements. In place, `send` and its lists are NULL. */
static inline int host_alltoallv(const void *send, const size_t *send_counts,
                                 const size_t *send_displacements, void *recv,
                                 const size_t *recv_counts, const size_t *recv_displacements,
                                 int datatype, host_comm_t *comm) {
    host_coll_args_t args = host_coll_args(send, recv, 0, datatype, HOST_SUM, 0);
    args.given.counts = send_counts;
    args.given.displacements = send_displacements;
    args.taken.counts = recv_counts;
    args.taken.displacements = recv_displacements;
    return host_coll(comm, HOST_COLL_ALLTOALLV, &args);
}

static inline int host_ialltoallv(const void *send, const size_t *send_counts,
                                  const size_t *send_displacements, void *recv,
                                  const size_t *recv_counts, const size_t *recv_displacements,
                                  int datatype, host_comm_t *comm, host_coll_request_t **request) {
    host_coll_args_t args = host_coll_args(send, recv, 0, datatype, HOST_SUM, 0);
    args.given.counts = send_counts;
    args.given.displacements = send_displacements;
    args.taken.counts = recv_counts;
    args.taken.displacements = recv_displacements;
    return host_coll_start(comm, HOST_COLL_ALLTOALLV, &args, request);
}

#endif
