/* A rank that computes for two seconds without entering MPI is the target: put, get and flush towards it must
 * not wait for it. With --atomics they are measured too; there the target's progress may be needed, so that they
 * are only reported. Usage: passive_target [limit of one operation in microseconds, default 1000] */
#include "check.h"
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

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

int main(int argc, char **argv)
{
    enum { N = 4000, BIG = 1 << 20 };
    static double put[N], get[N];
    start(&argc, &argv, MPI_THREAD_SINGLE);
    double limit = argc > 1 ? atof(argv[1]) : 1000;
    CHECK(world_size == 2, "run with 2 ranks");
    char *memory = calloc(1, BIG), *buffer = calloc(1, BIG);
    MPI_Win win = window(memory, BIG);
    MPI_Win_lock_all(0, win);
    if (0 == world_rank) { /* the first operation connects; that may take the peer's help */
        MPI_Put(buffer, 8, MPI_BYTE, 1, 0, 8, MPI_BYTE, win);
        MPI_Win_flush(1, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (1 == world_rank) {
        compute(2.0);
    } else {
        double begin = now();
        for (int i = 0; i < N; ++i) {
            int64_t out = i + 1, in = 0;
            double t0 = now();
            MPI_Put(&out, 8, MPI_BYTE, 1, 64, 8, MPI_BYTE, win);
            MPI_Win_flush(1, win);
            double t1 = now();
            MPI_Get(&in, 8, MPI_BYTE, 1, 64, 8, MPI_BYTE, win);
            MPI_Win_flush(1, win);
            double t2 = now();
            CHECK(in == out, "got %ld after putting %ld", (long) in, (long) out);
            put[i] = (t1 - t0) * 1e6;
            get[i] = (t2 - t1) * 1e6;
        }
        memset(buffer, 7, BIG);
        double t3 = now();
        MPI_Put(buffer, BIG, MPI_BYTE, 1, 0, BIG, MPI_BYTE, win);
        MPI_Win_flush(1, win);
        double end = now();
        qsort(put, N, sizeof(double), ascending);
        qsort(get, N, sizeof(double), ascending);
        printf("target computes: put+flush median %.2f us, get+flush median %.2f us, 1 MiB put %.0f us; "
               "all done after %.0f ms of 2000 ms\n",
               put[N / 2], get[N / 2], (end - t3) * 1e6, (end - begin) * 1e3);
        CHECK(put[N / 2] < limit && get[N / 2] < limit, "the median is above %.0f us", limit);
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
