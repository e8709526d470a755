/* Rank 0 puts and flushes while its script disconnects and reconnects the network: every flush returns, and
 * every value arrives. The program prints "ready" when the network may be cut. The program ends 3 s after a flush has
 * taken longer than the given number of seconds; during those 3 s the script may restore the network.
 * The script bounds the time. */
#include "check.h"

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(world_size == 2 && argc == 2, "run with 2 ranks and a number of seconds");
    double limit = atof(argv[1]), begin = now(), longest = 0, back = 0;
    int64_t *memory = calloc(2, sizeof *memory), value = 0, got = 0;
    MPI_Win win = window(memory, 2 * sizeof *memory);
    MPI_Win_lock_all(0, win);
    while (0 == world_rank && (longest < limit || now() - back < 3) && now() - begin < 100) {
        double before = now();
        ++value;
        MPI_Put(&value, 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, win);
        MPI_Win_flush(1, win);
        MPI_Get(&got, 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, win);
        MPI_Win_flush(1, win);
        CHECK(got == value, "a value did not arrive");
        double took = now() - before;
        if (took > longest) {
            longest = took;
            back = now();
        }
        if (1000 == value) {
            printf("cut_link: ready\n");
            fflush(stdout);
        }
    }
    CHECK(world_rank != 0 || longest >= limit, "the network was never away");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    free(memory);
    finish("cut_link");
    return 0;
}
