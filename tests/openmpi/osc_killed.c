/* A rank is killed while another has an open epoch to it: the calls that need the killed rank return an
 * error, and no call hangs. The program exits by itself, because Open MPI's own end waits for all ranks.
 * mpirun has to ignore the killed rank (--enable-recovery). */
#include "check.h"

#include <signal.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    int64_t *base, one = 1, old;
    MPI_Win wins[2];
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, wins);
    MPI_Win_create(base = calloc(8, 8), 64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, wins + 1);
    MPI_Win_set_errhandler(wins[1], MPI_ERRORS_RETURN);
    MPI_Win_lock_all(0, wins[1]);
    MPI_Put(&one, 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, wins[1]);
    MPI_Win_flush_all(wins[1]);
    MPI_Barrier(MPI_COMM_WORLD);
    if (1 == world_rank) raise(SIGKILL);
    int code = MPI_SUCCESS;
    for (int i = 0; MPI_SUCCESS == code && i < 100000; ++i) {
        code = MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 1, 0, MPI_SUM, wins[1]);
        if (MPI_SUCCESS == code) code = MPI_Win_flush(1, wins[1]);
    }
    CHECK(MPI_SUCCESS != code, "operations on a process that was killed succeed");
    printf("osc_killed: ok, rank %d got an error\n", world_rank);
    fflush(stdout);
    _exit(0);
}
