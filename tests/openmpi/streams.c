/* Messages of some MiB between two ranks, several at a time each way, and a window beside them: every byte arrives. The script
 * that runs it looks at the networks that carried them. Rank 0 prints how fast they were. */
#include "check.h"

enum { COUNT = 4, SIZE = 2 << 20, ROUNDS = 12 };

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(world_size == 2, "run with 2 ranks");
    int other = 1 - world_rank;
    unsigned char *out = malloc(COUNT * SIZE), *in = malloc(COUNT * SIZE);
    MPI_Request requests[2 * COUNT];
    int64_t word = 0, value = 0;
    double took = 0;
    MPI_Win win = window(&word, sizeof word);
    MPI_Win_lock_all(0, win);
    for (int round = 0; round < ROUNDS; ++round) {
        memset(in, 0, COUNT * SIZE);
        for (int i = 0; i < COUNT * SIZE; ++i)
            out[i] = (unsigned char) (i / 4096 + i + round + world_rank);
        MPI_Barrier(MPI_COMM_WORLD);
        took -= MPI_Wtime();
        for (int i = 0; i < COUNT; ++i) {
            MPI_Irecv(in + i * SIZE, SIZE, MPI_BYTE, other, i, MPI_COMM_WORLD, &requests[2 * i]);
            MPI_Isend(out + i * SIZE, SIZE, MPI_BYTE, other, i, MPI_COMM_WORLD, &requests[2 * i + 1]);
        }
        MPI_Waitall(2 * COUNT, requests, MPI_STATUSES_IGNORE);
        took += MPI_Wtime();
        for (int i = 0; i < COUNT * SIZE; ++i)
            CHECK(in[i] == (unsigned char) (i / 4096 + i + round + other), "byte %d of round %d", i, round);
        value = round + 1;
        MPI_Put(&value, 1, MPI_INT64_T, other, 0, 1, MPI_INT64_T, win);
        MPI_Win_flush(other, win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_sync(win);
        CHECK(word == round + 1, "the window has %ld", (long) word);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (0 == world_rank)
        printf("streams: %.0f MB/s each way\n", ROUNDS * COUNT * (double) SIZE / took / 1e6);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    free(out);
    free(in);
    finish("streams");
    return 0;
}
