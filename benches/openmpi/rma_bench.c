/* One-sided operations and messages between two ranks: latency, rate, bandwidth, windows, flush, finalize.
 *
 * A latency is the median over batches of the mean time of one operation with its flush; a rate or bandwidth is the median over
 * batches of 64 operations and one flush. The time of each measurement is limited, so that a transport with 10 ms per operation
 * ends, too.
 *
 * A message's latency is half of a round trip; its rate or bandwidth is measured over 64 messages and one
 * reply.
 *
 * With quick, fewer sizes: bandwidths of puts and gets from 1 KiB up to a largest size, each four times the previous
 * size. With calls, 8 bytes alone.
 *
 * Usage: rma_bench [all | quick | calls] [LARGEST] [create | allocate] */
#include "job.h"

#include <stdint.h>

enum { LARGEST = 4 << 20, BURST = 64, BATCHES = 400 };

static const double budget = 0.4; /* seconds per measurement */
static size_t room = LARGEST; /* bytes of the window */

static int rank;
static MPI_Win win;
static char *memory, *buffer;

static int ascending(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t) n, sizeof(*values), ascending);
    return n ? values[n / 2] : 0;
}

static void put(size_t size)
{
    MPI_Put(buffer, (int) size, MPI_BYTE, 1, 0, (int) size, MPI_BYTE, win);
}

static void get(size_t size)
{
    MPI_Get(buffer, (int) size, MPI_BYTE, 1, 0, (int) size, MPI_BYTE, win);
}

static void fetch_op(size_t size)
{
    (void) size;
    MPI_Fetch_and_op(buffer, buffer + 64, MPI_INT64_T, 1, 0, MPI_SUM, win);
}

static void compare_swap(size_t size)
{
    (void) size;
    MPI_Compare_and_swap(buffer, buffer + 64, buffer + 128, MPI_INT64_T, 1, 0, win);
}

static void accumulate(size_t size)
{
    int count = (int) (size / 8);
    MPI_Accumulate(buffer, count, MPI_INT64_T, 1, 0, count, MPI_INT64_T, MPI_SUM, win);
}

/* Seconds per operation if `burst` operations share a flush. */
static double measure(void (*operation)(size_t), size_t size, int burst)
{
    static double batch[BATCHES];
    int n = 0, rounds = burst > 1 ? 1 : 20;
    for (int i = 0; i < 3; ++i) { /* warm up: connections, registrations, pages */
        operation(size);
        MPI_Win_flush(1, win);
    }
    double begin = now();
    while (n < BATCHES && now() - begin < budget) {
        double t = now();
        for (int i = 0; i < rounds; ++i) {
            for (int k = 0; k < burst; ++k) {
                operation(size);
            }
            MPI_Win_flush(1, win);
        }
        batch[n++] = (now() - t) / (rounds * burst);
    }
    return median(batch, n);
}

static void latency(const char *name, void (*operation)(size_t), size_t size)
{
    report(name, size, 1, measure(operation, size, 1) * 1e6, "us");
}

static void bandwidth(const char *name, void (*operation)(size_t), size_t size)
{
    int burst = size >= 16 << 20 ? 4 : size >= 1 << 20 ? 16 : BURST;
    report(name, size, 1, (double) size / measure(operation, size, burst) / 1e6, "MB/s");
}

static void rate(const char *name, void (*operation)(size_t), size_t size)
{
    report(name, size, 1, 1 / measure(operation, size, BURST) / 1e6, "Mop/s");
}

static void operations(const char *sizes)
{
    latency("put_latency", put, 8);
    latency("get_latency", get, 8);
    latency("fetch_op_latency", fetch_op, 8);
    latency("compare_swap_latency", compare_swap, 8);
    latency("accumulate_latency", accumulate, 8);
    rate("put_rate", put, 8);
    rate("accumulate_rate", accumulate, 8);
    if (!strcmp(sizes, "calls")) {
        return;
    }
    if (!strcmp(sizes, "quick")) {
        for (size_t size = 1 << 10; size <= room; size *= 4) {
            bandwidth("put_bandwidth", put, size);
            bandwidth("get_bandwidth", get, size);
        }
        return;
    }
    rate("get_rate", get, 8);
    rate("fetch_op_rate", fetch_op, 8);
    rate("compare_swap_rate", compare_swap, 8);
    /* Sizes up to the largest. A bandwidth is the rate of a size in bytes; from 1 MiB fewer operations
     * share a flush. */
    for (size_t size = 1; size <= LARGEST; size *= 4) {
        latency("put_latency_of", put, size);
        latency("get_latency_of", get, size);
        bandwidth("put_bandwidth", put, size);
        bandwidth("get_bandwidth", get, size);
    }
    /* Fetch-op and compare-swap take one element by definition; accumulate takes any number. */
    for (size_t size = 16; size <= LARGEST; size *= 8) {
        latency("accumulate_latency_of", accumulate, size);
        bandwidth("accumulate_bandwidth", accumulate, size);
    }
    double t = now();
    for (int i = 0; i < 1000; ++i) {
        MPI_Win_flush(1, win);
    }
    report("flush_without_operations", 0, 1, (now() - t) * 1e3, "us");
}

/* Collective, so that both ranks run it. */
static void windows(void)
{
    enum { N = 20 };
    double create[N], allocate[N];
    for (int i = 0; i < N; ++i) {
        MPI_Win w;
        void *base;
        MPI_Barrier(MPI_COMM_WORLD);
        double t = now();
        MPI_Win_create(memory, 4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w);
        MPI_Win_free(&w);
        create[i] = (now() - t) * 1e6;
        MPI_Barrier(MPI_COMM_WORLD);
        t = now();
        MPI_Win_allocate(4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &w);
        MPI_Win_free(&w);
        allocate[i] = (now() - t) * 1e6;
    }
    if (0 == rank) {
        report("window_create_free", 4096, 1, median(create, N), "us");
        report("window_allocate_free", 4096, 1, median(allocate, N), "us");
    }
}

/* Waits until a word of this rank's memory differs from `last`; returns the word. */
static int64_t next_word(int64_t last)
{
    volatile int64_t *word = (volatile int64_t *) memory;
    while (*word == last) {
        int flag;
        MPI_Iprobe(1 - rank, 77, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE); /* progress */
    }
    return *word;
}

static void put_word(int64_t word)
{
    *(int64_t *) buffer = word;
    MPI_Put(buffer, 8, MPI_BYTE, 1 - rank, 0, 8, MPI_BYTE, win);
    MPI_Win_flush(1 - rank, win);
}

/* Time from a put to the read that sees it: half of a round trip, in which each rank puts after it has seen the
 * other's put. Does not depend on the operations for which a flush waits. Collective. */
static void seen(void)
{
    enum { ROUNDS = 20 };
    static const int64_t last = INT64_MIN;
    static double batch[BATCHES];
    int64_t word = 0, heard = 0;
    int n = 0;
    if (1 == rank) {
        while (heard != last) {
            heard = next_word(heard);
            put_word(heard);
        }
        return;
    }
    double begin = now();
    while (n < BATCHES && now() - begin < budget) {
        double t = now();
        for (int i = 0; i < ROUNDS; ++i) {
            put_word(++word);
            heard = next_word(heard);
        }
        batch[n++] = (now() - t) / (2 * ROUNDS);
    }
    put_word(last);
    next_word(heard);
    report("put_seen_latency", 8, 1, median(batch, n) * 1e6, "us");
}

/* `burst` messages to rank 1 and a reply: a reply of the same size to one message, an empty reply to several. Rank 1 repeats
 * this until a message has the tag 1. Collective. */
static void messages(const char *name, size_t size, int burst, const char *unit)
{
    static double batch[BATCHES];
    MPI_Request requests[BURST];
    int n = 0, rounds = burst > 1 ? 1 : 20, length = (int) size, back = burst > 1 ? 0 : length, last = 0;
    double begin = now();
    while (!last) {
        double t = now();
        if (0 == rank) {
            last = n == BATCHES - 1 || t - begin > budget;
        }
        for (int i = 0; i < rounds; ++i) {
            MPI_Status status;
            for (int k = 0; k < burst; ++k) {
                if (0 == rank) {
                    MPI_Isend(buffer, length, MPI_BYTE, 1, last, MPI_COMM_WORLD, &requests[k]);
                } else {
                    MPI_Irecv(buffer, length, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[k]);
                }
            }
            if (0 == rank) {
                MPI_Waitall(burst, requests, MPI_STATUSES_IGNORE);
                MPI_Recv(buffer, back, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else {
                MPI_Waitall(burst - 1, requests, MPI_STATUSES_IGNORE);
                MPI_Wait(&requests[burst - 1], &status);
                MPI_Send(buffer, back, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
                last = status.MPI_TAG;
            }
        }
        batch[n++ % BATCHES] = (now() - t) / (rounds * burst);
    }
    double each = median(batch, n < BATCHES ? n : BATCHES);
    if (0 == rank) {
        report(name, size, 1, !strcmp(unit, "us") ? each / 2 * 1e6 : !strcmp(unit, "MB/s") ? (double) size / each / 1e6 : 1 / each / 1e6,
               unit);
    }
}

static void all_messages(int quick)
{
    messages("send_latency", 8, 1, "us");
    messages("send_rate", 8, BURST, "Mop/s");
    for (size_t size = 1 << 10; size <= LARGEST; size *= quick ? 8 : 4) {
        messages("send_latency", size, 1, "us");
        messages("send_bandwidth", size, size >= 1 << 20 ? 16 : BURST, "MB/s");
    }
}

int main(int argc, char **argv)
{
    const char *sizes = argc > 1 ? argv[1] : "all", *kind = argc > 3 ? argv[3] : "create";
    int size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) {
        stop("rma_bench: run with 2 ranks");
    }
    pin(rank);
    if (argc > 2 && atoll(argv[2]) > LARGEST) {
        room = (size_t) atoll(argv[2]);
    }
    buffer = aligned_alloc(4096, room);
    if (!buffer) {
        stop("rma_bench: no memory");
    }
    memset(buffer, 0, room);
    memory = make_window(kind, room, 1, MPI_COMM_WORLD, &win);
    int calls = !strcmp(sizes, "calls");
    if (!calls) {
        windows();
    }
    MPI_Win_lock_all(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!calls) {
        seen();
        all_messages(!strcmp(sizes, "quick"));
    }
    if (0 == rank) {
        operations(sizes);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(win);
    drop_window(kind, memory, &win);
    double t = now();
    MPI_Finalize();
    if (0 == rank && !calls) {
        report("finalize", 0, 1, now() - t, "s");
    }
    free(buffer);
    return 0;
}
