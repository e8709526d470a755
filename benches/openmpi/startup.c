/* The time that a job spends before and after its work: MPI_Init, the first window and the first put that is complete at the
 * next rank, further windows, MPI_Finalize. A time is the longest of all ranks; the time of MPI_Finalize is
 * rank 0's.
 *
 * The column of threads holds the number of ranks.
 *
 * Usage: startup */
#include "job.h"

#include <stdint.h>

enum { WINDOWS = 8, BYTES = 4096 };

static int rank, size;

static int ascending(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

/* Makes and frees windows; reports the median times. */
static void windows(const char *name, const char *kind)
{
    double seconds[WINDOWS];
    for (int i = 0; i < WINDOWS; ++i) {
        MPI_Win win;
        void *base = NULL, *memory = aligned_alloc(BYTES, BYTES);
        if (!memory) {
            stop("startup: no memory");
        }
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = now();
        if (!strcmp(kind, "dynamic")) {
            MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        } else if (!strcmp(kind, "create")) {
            MPI_Win_create(memory, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        } else {
            MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
        }
        MPI_Win_free(&win);
        seconds[i] = longest(now() - begin);
        free(memory);
    }
    qsort(seconds, WINDOWS, sizeof(*seconds), ascending);
    if (0 == rank) {
        report(name, BYTES, size, seconds[WINDOWS / 2] * 1e3, "ms");
    }
}

int main(int argc, char **argv)
{
    double begin = now();
    MPI_Win win;
    int64_t word = 0;
    MPI_Init(&argc, &argv);
    double initialised = now();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    pin(rank);
    int64_t *table = aligned_alloc(BYTES, BYTES);
    if (!table) {
        stop("startup: no memory");
    }
    *table = -1;
    MPI_Win_create(table, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_lock_all(0, win);
    word = rank;
    MPI_Put(&word, 1, MPI_INT64_T, (rank + 1) % size, 0, 1, MPI_INT64_T, win);
    MPI_Win_flush((rank + 1) % size, win);
    double put = now();
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (*table != (rank + size - 1) % size) {
        stop("startup: the first put did not arrive");
    }
    double to_init = longest(initialised - begin), to_put = longest(put - begin);
    if (0 == rank) {
        report("init", 0, size, to_init * 1e3, "ms");
        report("init_to_first_put", sizeof(word), size, to_put * 1e3, "ms");
    }
    windows("window_create_free", "create");
    windows("window_allocate_free", "allocate");
    windows("window_dynamic_free", "dynamic");
    MPI_Barrier(MPI_COMM_WORLD);
    double end = now();
    MPI_Finalize();
    if (0 == rank) {
        report("finalize", 0, size, (now() - end) * 1e3, "ms");
    }
    free(table);
    return 0;
}
