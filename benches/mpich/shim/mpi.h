/* What rma_bench.c and visible.c call of MPI, on windows of libhost_stub.so: one program measures both, compiled with
 * MPICH's own mpi.h and with this. No other program is served. */
#ifndef SHIM_MPI_H
#define SHIM_MPI_H

#include <host_stub.h>
#include <stdio.h>
#include <stdlib.h>

/* The host has no messages of two sides. */
#define MPI_HAS_NO_MESSAGES

typedef host_win_t *MPI_Win;

enum { MPI_COMM_WORLD, MPI_INFO_NULL, MPI_THREAD_SINGLE, MPI_THREAD_MULTIPLE, MPI_SUM = HOST_SUM };
enum { MPI_BYTE = HOST_UINT8, MPI_INT64_T = HOST_INT64 };

#define MPI_Abort(comm, code) exit(code)

static inline void shim_must(int code, const char *call)
{
    if (code != HOST_SUCCESS) {
        fprintf(stderr, "%s: %d, %s\n", call, code, host_error_text());
        exit(3);
    }
}
#define SHIM_MUST(call) shim_must(call, #call)

static inline host_comm_t *shim_world(void)
{
    static host_comm_t *world;
    if (!world) {
        SHIM_MUST(host_comm_world(&world));
    }
    return world;
}

/* Makes progress all the while, as MPICH's does; host_barrier goes out of band and progresses now and then only. */
static inline void shim_barrier(void)
{
    host_coll_request_t *request;
    int done = 0;
    SHIM_MUST(host_comm_ibarrier(shim_world(), &request));
    while (!done) {
        SHIM_MUST(host_coll_test(&request, &done));
    }
}

static inline void MPI_Init_thread(int *argc, char ***argv, int required, int *given)
{
    (void) argc, (void) argv;
    SHIM_MUST(host_init_thread(required == MPI_THREAD_MULTIPLE ? HOST_THREAD_MULTIPLE : HOST_THREAD_SINGLE, given));
}

#define MPI_Comm_rank(comm, out) (*(out) = host_rank())
#define MPI_Comm_size(comm, out) (*(out) = host_size())
/* Here it only makes progress. */
#define MPI_STATUS_IGNORE NULL
#define MPI_Iprobe(from, tag, comm, flag, status) (*(flag) = 0, (void) (status), (void) host_progress())
#define MPI_Barrier(comm) shim_barrier()
#define MPI_Finalize() SHIM_MUST(host_finalize())

#define MPI_Win_create(base, size, unit, info, comm, win) SHIM_MUST(host_win_create(base, size, unit, win))
#define MPI_Win_allocate(size, unit, info, comm, base, win)                                                        \
    (SHIM_MUST(host_win_allocate(size, unit, win)), *(base) = host_win_base(*(win)))
#define MPI_Win_free(win) SHIM_MUST(host_win_free(win))
#define MPI_Win_lock_all(assertion, win) SHIM_MUST(host_win_lock_all(win))
#define MPI_Win_unlock_all(win) SHIM_MUST(host_win_unlock_all(win))
#define MPI_Win_flush(rank, win) SHIM_MUST(host_win_flush(rank, win))

#define MPI_Put(origin, count, type, rank, at, target_count, target_type, win)                                     \
    SHIM_MUST(host_put(origin, (size_t) (count), rank, at, win))
#define MPI_Get(origin, count, type, rank, at, target_count, target_type, win)                                     \
    SHIM_MUST(host_get(origin, (size_t) (count), rank, at, win))
#define MPI_Fetch_and_op(origin, result, type, rank, at, op, win)                                                  \
    SHIM_MUST(host_fetch_and_op(origin, result, type, op, rank, at, win))
#define MPI_Compare_and_swap(origin, compare, result, type, rank, at, win)                                         \
    SHIM_MUST(host_compare_and_swap(origin, compare, result, type, rank, at, win))
#define MPI_Accumulate(origin, count, type, rank, at, target_count, target_type, op, win)                          \
    SHIM_MUST(host_accumulate(origin, (size_t) (count), type, op, rank, at, win))

#endif
