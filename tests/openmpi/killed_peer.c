/* Rank 1 is killed by SIGKILL in the middle of an epoch while rank 0 keeps sending: the job must end with a
 * message and a failure. The script that runs this program bounds the time. */
#include "check.h"
#include <signal.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    enum { BIG = 1 << 16 };
    start(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(world_size == 2, "run with 2 ranks");
    char *memory = calloc(1, BIG), *buffer = calloc(1, BIG);
    MPI_Win win = window(memory, BIG);
    MPI_Win_lock_all(0, win);
    MPI_Put(buffer, 8, MPI_BYTE, 1 - world_rank, 0, 8, MPI_BYTE, win);
    MPI_Win_flush(1 - world_rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == world_rank) {
        printf("killed_peer: rank 1 is killed\n");
        fflush(stdout);
    } else {
        usleep(300000);
        kill(getpid(), SIGKILL);
    }
    time_t end = time(NULL) + 60;
    int64_t one = 1, old;
    while (time(NULL) < end) {
        for (int i = 0; i < 100; ++i) {
            MPI_Put(buffer, i % 2 ? 8 : BIG, MPI_BYTE, 1, 0, i % 2 ? 8 : BIG, MPI_BYTE, win);
        }
        MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 1, 0, MPI_SUM, win);
        MPI_Win_flush(1, win);
    }
    printf("killed_peer: rank 0 never heard that rank 1 is gone\n");
    return 0;
}
