/* Two ranks have put to each other and then only wait, for the given number of seconds, while the script that
 * runs them disconnects the network. The ranks print "ready" when the script may do so. The ranks wait for
 * messages that never come; the script bounds the time. */
#include "check.h"

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(world_size == 2 && argc == 2, "run with 2 ranks and a number of seconds");
    double limit = atof(argv[1]);
    int64_t *memory = calloc(1, sizeof *memory), value = 1 + world_rank;
    int other = 1 - world_rank, came = 0;
    MPI_Win win = window(memory, sizeof *memory);
    MPI_Win_lock_all(0, win);
    MPI_Put(&value, 1, MPI_INT64_T, other, 0, 1, MPI_INT64_T, win);
    MPI_Win_flush(other, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == world_rank) {
        printf("waits_only: ready\n");
        fflush(stdout);
    }
    for (double begin = now(); now() - begin < limit && !came;)
        MPI_Iprobe(other, 1, MPI_COMM_WORLD, &came, MPI_STATUS_IGNORE);
    CHECK(!came, "nobody has sent a message");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    CHECK(memory[0] == 1 + other, "a value did not arrive");
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    free(memory);
    finish("waits_only");
    return 0;
}
