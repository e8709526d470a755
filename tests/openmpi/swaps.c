/* All ranks increment a word of each rank, including their own, by compare-and-swap at the same time. No
 * increment may be lost, whatever the memory of the window is. osc/rdma executes the same call in different
 * ways: by the component, or, in memory that the ranks of a node share, by loads and stores under a lock. If
 * two ranks chose differently for one word, updates would be lost. */
#include "check.h"

enum { ROUNDS = 10000, BYTES = 4096, WORD = 128, LAST = BYTES - 4 };

#define RAISE(T, mpi_type, place, win, kind)                                                                            \
    do {                                                                                                                \
        T zero = 0, seen, all;                                                                                          \
        MPI_Win_lock_all(0, win);                                                                                       \
        MPI_Put(&zero, 1, mpi_type, world_rank, place, 1, mpi_type, win);                                               \
        MPI_Win_flush(world_rank, win);                                                                                 \
        for (int target = 0; target < world_size; ++target) {                                                           \
            T known = 0;                                                                                                \
            /* Every rank at the same word, and then at the next one. */                                                \
            MPI_Barrier(MPI_COMM_WORLD);                                                                                \
            for (int done = 0; done < ROUNDS;) {                                                                        \
                T next = (T) (known + 1);                                                                               \
                MPI_Compare_and_swap(&next, &known, &seen, mpi_type, target, place, win);                               \
                MPI_Win_flush(target, win);                                                                             \
                done += seen == known;                                                                                  \
                known = seen == known ? next : seen;                                                                    \
            }                                                                                                           \
        }                                                                                                               \
        MPI_Barrier(MPI_COMM_WORLD);                                                                                    \
        MPI_Get(&all, 1, mpi_type, world_rank, place, 1, mpi_type, win);                                                \
        MPI_Win_flush(world_rank, win);                                                                                 \
        MPI_Win_unlock_all(win);                                                                                        \
        CHECK(all == ROUNDS * world_size, "%s, " #T ": %ld of %d", kind, (long) all, ROUNDS * world_size);              \
        MPI_Barrier(MPI_COMM_WORLD);                                                                                    \
    } while (0)

static void raise_all(MPI_Win win, const char *kind)
{
    RAISE(int64_t, MPI_INT64_T, WORD, win, kind);
    RAISE(int32_t, MPI_INT32_T, LAST, win, kind);
}

int main(int argc, char **argv)
{
    MPI_Win win, memory;
    void *base;
    start(&argc, &argv, MPI_THREAD_SINGLE);
    /* A region of whole pages ends behind its last word. */
    base = aligned_alloc(BYTES, BYTES);
    CHECK(base, "no memory");
    win = window(base, BYTES);
    raise_all(win, "memory of the program");
    MPI_Win_free(&win);
    free(base);
    MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    raise_all(win, "memory of MPI_Win_allocate");
    MPI_Win_free(&win);
    MPI_Comm node;
    int of_node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &of_node);
    /* Only the ranks of one node have shared memory. */
    if (of_node == world_size) {
        MPI_Win_allocate_shared(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &memory);
        win = window(base, BYTES);
        raise_all(win, "memory of MPI_Win_allocate_shared");
        MPI_Win_free(&win);
        MPI_Win_free(&memory);
    }
    MPI_Comm_free(&node);
    finish("swaps");
    return 0;
}
