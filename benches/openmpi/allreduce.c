/* One measurement of MPI_Allreduce: bytes, rounds and calls per round from the command line; rank 0
 * prints the median over the rounds of the time of one call, in microseconds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: allreduce BYTES ROUNDS CALLS\n");
        return 2;
    }
    size_t bytes = strtoul(argv[1], NULL, 10);
    int rounds = atoi(argv[2]), calls = atoi(argv[3]), rank;
    int count = (int)(bytes / sizeof(double));
    double *send = malloc(bytes), *recv = malloc(bytes), *times = malloc(rounds * sizeof(double));
    if (send == NULL || recv == NULL || times == NULL) {
        return 1;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < count; i++) {
        send[i] = rank + i;
    }
    for (int round = -1; round < rounds; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        for (int call = 0; call < calls; call++) {
            MPI_Allreduce(send, recv, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        }
        if (round >= 0) {
            times[round] = (MPI_Wtime() - start) / calls * 1e6;
        }
    }
    if (rank == 0) {
        qsort(times, rounds, sizeof(double), ascending);
        printf("%.3f\n", times[rounds / 2]);
    }
    MPI_Finalize();
    free(send);
    free(recv);
    free(times);
    return 0;
}
