/* Random updates of a table that all ranks share, by MPI_Accumulate and then by MPI_Fetch_and_op. Each rank makes its share of
 * the updates, at most LOOKAHEAD between two flushes, as HPC Challenge's RandomAccess allows. The operation is
 * MPI_SUM: Open MPI's own btl/ofi ends the job at MPI_BXOR, the operation of HPC Challenge.
 *
 * The result is checked exactly: each rank repeats the updates of all ranks on its own part. Prints the time to
 * solution of each kind.
 *
 * Usage: gups create|allocate WORDS UPDATES (words of each rank, a power of two; updates of each rank) */
#include "job.h"

#include <stdint.h>

enum { LOOKAHEAD = 1024 };

static int rank, size;
static uint64_t words;

/* The next random number of a stream (splitmix64), whose state is a counter. */
static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t stream_of(int owner)
{
    return ((uint64_t) owner + 1) << 40;
}

/* Makes the updates of this rank; returns seconds. */
static double update(int fetch, long updates, MPI_Win win)
{
    static uint64_t operands[LOOKAHEAD], before[LOOKAHEAD];
    uint64_t state = stream_of(rank);
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = now();
    for (long i = 0; i < updates; ++i) {
        int at = (int) (i % LOOKAHEAD);
        uint64_t place = next(&state) % (words * (uint64_t) size);
        int target = (int) (place / words);
        MPI_Aint index = (MPI_Aint) (place % words);
        operands[at] = next(&state);
        if (fetch) {
            MPI_Fetch_and_op(&operands[at], &before[at], MPI_UINT64_T, target, index, MPI_SUM, win);
        } else {
            MPI_Accumulate(&operands[at], 1, MPI_UINT64_T, target, index, 1, MPI_UINT64_T, MPI_SUM, win);
        }
        if (at == LOOKAHEAD - 1) {
            MPI_Win_flush_all(win);
        }
    }
    MPI_Win_flush_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    return now() - begin;
}

/* The number of words of this rank that differ from the result of all updates to zeros. */
static long differences(long updates, const uint64_t *table)
{
    uint64_t *expected = calloc(words, sizeof(*expected));
    long wrong = 0;
    if (!expected) {
        stop("gups: no memory");
    }
    for (int owner = 0; owner < size; ++owner) {
        uint64_t state = stream_of(owner);
        for (long i = 0; i < updates; ++i) {
            uint64_t place = next(&state) % (words * (uint64_t) size), operand = next(&state);
            if (place / words == (uint64_t) rank) {
                expected[place % words] += operand;
            }
        }
    }
    for (uint64_t i = 0; i < words; ++i) {
        wrong += table[i] != expected[i];
    }
    free(expected);
    return wrong;
}

int main(int argc, char **argv)
{
    int code = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 4) {
        stop("usage: gups create|allocate WORDS UPDATES");
    }
    const char *kind = argv[1];
    long updates = atol(argv[3]);
    words = (uint64_t) atol(argv[2]);
    if (!words || words & (words - 1) || updates < 1) {
        stop("gups: WORDS is a power of two, UPDATES at least 1");
    }
    pin(rank);
    for (int fetch = 0; fetch < 2; ++fetch) {
        MPI_Win win;
        uint64_t *table = make_window(kind, words * sizeof(*table), sizeof(*table), MPI_COMM_WORLD, &win), zero = 0, old;
        MPI_Win_lock_all(0, win);
        /* Connections are made before the measurement; adding zero changes nothing. */
        for (int target = 0; target < size; ++target) {
            MPI_Fetch_and_op(&zero, &old, MPI_UINT64_T, target, 0, MPI_SUM, win);
            MPI_Win_flush(target, win);
        }
        double seconds = update(fetch, updates, win);
        MPI_Win_unlock_all(win);
        MPI_Barrier(MPI_COMM_WORLD);
        code |= conclude(fetch ? "gups_fetch_op" : "gups_accumulate", sizeof(*table), seconds, differences(updates, table));
        drop_window(kind, table, &win);
    }
    MPI_Finalize();
    return code;
}
