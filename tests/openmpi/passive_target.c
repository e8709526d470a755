/* A rank that computes for two seconds without entering MPI is the target, once for puts and once for gets: each,
 * with the flush after it, must not wait for the target.
 *
 *   passive_target [LIMIT]     fails where a median is above LIMIT microseconds (default 50) */
#include "check.h"

static void compute(double seconds)
{
    volatile double x = 1;
    for (double end = now() + seconds; now() < end;) {
        for (int i = 0; i < 10000; ++i) {
            x = x * 1.0000001 + 1e-9;
        }
    }
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

enum { N = 4000, BIG = 1 << 20 };

/* Transfers by turns with flushes, until there are N of them or the target is about to end its computing. Returns the
 * median in microseconds. */
static double transfers(int put, MPI_Win win)
{
    static double took[N];
    int count = 0;
    for (double begin = now(); count < N && now() < begin + 1.5; ++count) {
        int64_t out = count + 1, in = 0;
        double t = now();
        if (put) {
            MPI_Put(&out, 8, MPI_BYTE, 1, 64, 8, MPI_BYTE, win);
        } else {
            MPI_Get(&in, 8, MPI_BYTE, 1, 64, 8, MPI_BYTE, win);
        }
        MPI_Win_flush(1, win);
        took[count] = (now() - t) * 1e6;
        CHECK(put || in == 17, "got %ld", (long) in);
    }
    qsort(took, count, sizeof(double), ascending);
    return took[count / 2];
}

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    double limit = argc > 1 ? atof(argv[1]) : 50;
    CHECK(world_size == 2 && limit > 0, "run with 2 ranks and a limit above 0");
    char *memory = calloc(1, BIG), *buffer = calloc(1, BIG);
    CHECK(memory && buffer, "no memory");
    MPI_Win win = window(memory, BIG);
    MPI_Win_lock_all(0, win);
    if (0 == world_rank) { /* the first operation connects; that may take the peer's help */
        MPI_Put(buffer, 8, MPI_BYTE, 1, 0, 8, MPI_BYTE, win);
        MPI_Win_flush(1, win);
    }
    for (int put = 1; put >= 0; --put) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (1 == world_rank) {
            compute(2.0);
            continue;
        }
        double begin = now(), median = transfers(put, win), t = now(), mebibyte = 0, end;
        if (put) {
            int64_t last = 17;
            memset(buffer, 7, BIG);
            memcpy(buffer + 64, &last, sizeof(last)); /* the values that the gets must return */
            MPI_Put(buffer, BIG, MPI_BYTE, 1, 0, BIG, MPI_BYTE, win);
            MPI_Win_flush(1, win);
            mebibyte = (now() - t) * 1e6;
        }
        end = now();
        printf("target computes: %s and flush, median %.2f us; ", put ? "put" : "get", median);
        if (put) {
            printf("1 MiB put %.0f us; ", mebibyte);
        }
        printf("all done after %.0f of 2000 ms\n", (end - begin) * 1e3);
        CHECK(median <= limit, "the median is above %.0f us", limit);
        CHECK(end - begin < 1.5, "the operations waited for the target");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    free(memory);
    free(buffer);
    finish("passive_target");
    return 0;
}
