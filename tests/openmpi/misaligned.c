/* Atomics on words that are not aligned to their size: with every call, on memory of the program and of
 * MPI_Win_allocate. No processor executes such atomics, so the component refuses them, and osc/rdma executes
 * them under its lock. */
#include "check.h"

enum { BYTES = 64, TIMES = 50, CALLS = 5 };

/* Every rank increments the word at `at` of the last rank, with one kind of call. */
static void raise_word(MPI_Win win, int call, MPI_Aint at)
{
    int64_t one = 1, old = 0, pair[2] = {1, 1}, olds[2];
    int target = world_size - 1;
    switch (call) {
    case 0: MPI_Fetch_and_op(&one, &old, MPI_INT64_T, target, at, MPI_SUM, win); break;
    case 1: MPI_Accumulate(&one, 1, MPI_INT64_T, target, at, 1, MPI_INT64_T, MPI_SUM, win); break;
    case 2: MPI_Accumulate(pair, 2, MPI_INT64_T, target, at, 2, MPI_INT64_T, MPI_SUM, win); break;
    case 3: MPI_Get_accumulate(pair, 2, MPI_INT64_T, olds, 2, MPI_INT64_T, target, at, 2, MPI_INT64_T, MPI_SUM, win); break;
    default:
        for (int64_t known = 0, next;; known = old) {
            next = known + 1;
            MPI_Compare_and_swap(&next, &known, &old, MPI_INT64_T, target, at, win);
            MPI_Win_flush(target, win);
            if (old == known) break;
        }
    }
    MPI_Win_flush(target, win);
}

static void try_window(MPI_Win win, char *base, const char *kind)
{
    for (int call = 0; call < CALLS; ++call) {
        for (MPI_Aint at = 1; at < 8; at += 3) {
            MPI_Win_lock_all(0, win);
            memset(base, 0, BYTES);
            MPI_Win_sync(win);
            MPI_Barrier(MPI_COMM_WORLD);
            /* A rank's own words are changed by other means, which 4.1 does not exclude from changes of
             * peers. */
            int raises = CALLS - 1 != call || world_rank != world_size - 1;
            for (int i = 0; raises && i < TIMES; ++i) raise_word(win, call, at);
            MPI_Win_unlock_all(win);
            MPI_Barrier(MPI_COMM_WORLD);
            int64_t sum;
            memcpy(&sum, base + at, sizeof sum);
            int64_t ranks = CALLS - 1 == call ? world_size - 1 : world_size;
            CHECK(world_rank != world_size - 1 || sum == ranks * TIMES, "%s, call %d at %d: %ld", kind, call, (int) at, (long) sum);
        }
    }
}

int main(int argc, char **argv)
{
    static char memory[BYTES] __attribute__((aligned(64)));
    char *base;
    MPI_Win win;
    start(&argc, &argv, MPI_THREAD_SINGLE);
    win = window(memory, BYTES);
    try_window(win, memory, "memory of the program");
    MPI_Win_free(&win);
    MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    try_window(win, base, "memory of MPI_Win_allocate");
    MPI_Win_free(&win);
    finish("misaligned");
    return 0;
}
