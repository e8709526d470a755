/* A spin lock that programs make of MPI_Fetch_and_op with MPI_REPLACE: each try takes and releases osc/rdma's
 * lock of rank 0. If a rank's next try followed immediately behind its release, it would block the others,
 * including the holder of the spin lock. The test counts tries: some tens, and some thousands on a busy
 * machine, because others try while the holder waits for a processor. With blocked ranks the number was
 * 140,000. */
#include "check.h"

enum { ROUNDS = 20, MOST = 1000 * ROUNDS };

int main(int argc, char **argv)
{
    static int64_t words[2];
    int64_t tries = 0, most, count;
    MPI_Win win;
    start(&argc, &argv, MPI_THREAD_SINGLE);
    win = window(words, sizeof words);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int round = 0; round < ROUNDS; ++round) {
        int one = 1, zero = 0, old;
        do {
            ++tries;
            MPI_Fetch_and_op(&one, &old, MPI_INT, 0, 0, MPI_REPLACE, win);
            MPI_Win_flush(0, win);
        } while (old);
        /* Only the lock protects this counter. */
        MPI_Get(&count, 1, MPI_INT64_T, 0, 8, 1, MPI_INT64_T, win);
        MPI_Win_flush(0, win);
        ++count;
        MPI_Put(&count, 1, MPI_INT64_T, 0, 8, 1, MPI_INT64_T, win);
        MPI_Win_flush(0, win);
        MPI_Accumulate(&zero, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_REPLACE, win);
        MPI_Win_flush(0, win);
    }
    MPI_Win_unlock_all(win);
    MPI_Allreduce(&tries, &most, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    CHECK(0 != world_rank || words[1] == (int64_t) ROUNDS * world_size, "%ld", (long) words[1]);
    if (0 == world_rank) printf("swap_lock: at most %ld tries of a rank for %d rounds\n", (long) most, ROUNDS);
    CHECK(most <= MOST, "%ld tries of a rank", (long) most);
    MPI_Win_free(&win);
    finish("swap_lock");
    return 0;
}
