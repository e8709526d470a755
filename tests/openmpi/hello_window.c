/* Each rank puts its number into its right neighbour's window, and reads it back from its left neighbour's.
 * Afterwards rank 0 prints the component that made the window, and the time of a put and of an accumulate of
 * 8 bytes to its neighbour, each with a flush. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The maximum number of calls of a kind, and the time in seconds after which no further call begins. */
#define TIMES 2000
#define SECONDS 0.2

static int rank, size;

static void check(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "hello_window: rank %d: %s\n", rank, what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

/* The median time of the calls in microseconds, and their number. */
static double measure(MPI_Win win, int64_t *cell, int target, int accumulate, int *times)
{
    static double took[TIMES];
    double end = MPI_Wtime() + SECONDS;
    int i = 0;
    while (i < TIMES && (0 == i || MPI_Wtime() < end)) {
        double begin = MPI_Wtime();
        if (accumulate) MPI_Accumulate(cell, 1, MPI_INT64_T, target, 1, 1, MPI_INT64_T, MPI_SUM, win);
        else MPI_Put(cell, 1, MPI_INT64_T, target, 0, 1, MPI_INT64_T, win);
        MPI_Win_flush(target, win);
        took[i++] = (MPI_Wtime() - begin) * 1e6;
    }
    *times = i;
    qsort(took, i, sizeof *took, compare);
    return took[i / 2];
}

int main(int argc, char **argv)
{
    int64_t cell[2] = {-1, -1};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    cell[1] = 1000 + rank;
    MPI_Win win;
    MPI_Win_create(cell, sizeof(cell), sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    int64_t mine = rank, got = -1;
    MPI_Win_fence(0, win);
    MPI_Put(&mine, 1, MPI_INT64_T, right, 0, 1, MPI_INT64_T, win);
    MPI_Get(&got, 1, MPI_INT64_T, left, 1, 1, MPI_INT64_T, win);
    MPI_Win_fence(0, win);
    check(cell[0] == left, "the left neighbour's number has not arrived");
    check(got == 1000 + left, "the left neighbour's window has another value");
    printf("rank %d: rank %d wrote into my window, and I read rank %d's\n", rank, left, left);
    fflush(stdout);
    int64_t one = 1;
    int times = 0;
    double put = 0, accumulate = 0;
    MPI_Win_lock_all(0, win);
    if (0 == rank) {
        put = measure(win, &mine, right, 0, &times);
        accumulate = measure(win, &one, right, 1, &times);
    }
    MPI_Win_unlock_all(win);
    MPI_Bcast(&times, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    check(cell[1] == 1000 + rank + (rank == 1 % size ? times : 0), "the accumulates have not arrived");
    MPI_Win_unlock(rank, win);
    if (0 == rank) {
        char name[MPI_MAX_OBJECT_NAME];
        int length;
        MPI_Win_get_name(win, name, &length);
        printf("hello_window: %s, put and flush %.2f us, accumulate and flush %.2f us\n", name, put, accumulate);
    }
    MPI_Win_free(&win);
    if (0 == rank) {
        printf("hello_window: ok, %d ranks\n", size);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
