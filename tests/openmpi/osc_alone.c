/* A target computes and never enters MPI; its progress thread (osc_ofi_rs_progress_thread) serves the
 * operations of the others. Without the thread, the operations would wait forever over a transport that needs
 * the target's progress. */
#include "check.h"

#include <sched.h>

enum { TIMES = 200 };

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    int64_t *base = calloc(4, 8), one = 1, old = -1;
    MPI_Win win;
    MPI_Win_create(base, 32, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == world_rank) {
        for (volatile int64_t *over = base + 1; world_size - 1 != __atomic_load_n(over, __ATOMIC_ACQUIRE);) sched_yield();
        CHECK((int64_t) TIMES * (world_size - 1) == base[0], "%ld", (long) base[0]);
    } else {
        double begin = MPI_Wtime();
        MPI_Win_lock_all(0, win);
        for (int i = 0; i < TIMES; ++i) {
            MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, 0, MPI_SUM, win);
            MPI_Win_flush(0, win);
            CHECK(i <= old, "%ld after %d of its own", (long) old, i);
        }
        printf("rank %d: %.1f us for a fetch-and-op at a target that computes\n", world_rank, (MPI_Wtime() - begin) * 1e6 / TIMES);
        MPI_Accumulate(&one, 1, MPI_INT64_T, 0, 1, 1, MPI_INT64_T, MPI_SUM, win);
        MPI_Win_unlock_all(win);
    }
    MPI_Win_free(&win);
    finish("osc_alone");
}
