/* GASNet-EX without MPI between two processes: puts, gets and atomics. Prints rma_bench's lines.
 *
 * The target memory is the segment that GASNet allocated. A put is complete when it is at its target, as after a flush. A rate or
 * bandwidth is that of 64 operations, 16 from 1 MiB, 4 from 16 MiB, and one wait for all. Rank 1 polls until rank 0 has measured.
 * The argument is the largest size.
 *
 * The conduit that it is linked with starts the second process, by settings of its own: see GASNET in wire.py. */
#include "job_clock.h"

#include <gasnetex.h>
#include <gasnet_ratomic.h>
#include <stdint.h>
#include <string.h>

enum { LARGEST = 64 << 20, BURST = 64, BATCHES = 400 };

static const double budget = 0.4; /* seconds per measurement */

static gex_TM_t team;
static gex_AD_t domain;
static gex_Rank_t rank;
static void *mine, *theirs; /* the segments of this process and, at its address there, of the other one */
static _Alignas(4096) char buffer[LARGEST];

static void must(int status, const char *what)
{
    if (status != GASNET_OK) {
        fprintf(stderr, "gasnet_rma: %s failed: %s\n", what, gasnet_ErrorDesc(status));
        gasnet_exit(1);
    }
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t) n, sizeof(*values), ascending);
    return values[n / 2];
}

static void put(size_t size, int burst)
{
    if (burst == 1) {
        gex_RMA_PutBlocking(team, 1 - rank, theirs, buffer, size, 0);
        return;
    }
    for (int i = 0; i < burst; ++i) {
        gex_RMA_PutNBI(team, 1 - rank, theirs, buffer, size, GEX_EVENT_DEFER, 0);
    }
    gex_NBI_Wait(GEX_EC_PUT, 0);
}

static void get(size_t size, int burst)
{
    if (burst == 1) {
        gex_RMA_GetBlocking(team, buffer, 1 - rank, theirs, size, 0);
        return;
    }
    for (int i = 0; i < burst; ++i) {
        gex_RMA_GetNBI(team, buffer, 1 - rank, theirs, size, 0);
    }
    gex_NBI_Wait(GEX_EC_GET, 0);
}

static void atomic(gex_OP_t operation)
{
    gex_Event_Wait(gex_AD_OpNB_I64(domain, (int64_t *) buffer, 1 - rank, theirs, operation, 1, 2, 0));
}

static void fetch_add(size_t size, int burst)
{
    (void) size, (void) burst;
    atomic(GEX_OP_FADD);
}

static void compare_swap(size_t size, int burst)
{
    (void) size, (void) burst;
    atomic(GEX_OP_FCAS);
}

static void add(size_t size, int burst)
{
    (void) size, (void) burst;
    atomic(GEX_OP_ADD);
}

/* Seconds per operation. */
static double measure(void (*operations)(size_t, int), size_t size, int burst)
{
    static double batch[BATCHES];
    int n = 0, rounds = burst > 1 ? 1 : 200; /* an operation may take no longer than a look at the clock */
    operations(size, burst); /* warm up: pages, buffers of the conduit */
    double begin = now();
    while (n < BATCHES && (!n || now() - begin < budget)) {
        double t = now();
        for (int i = 0; i < rounds; ++i) {
            operations(size, burst);
        }
        batch[n++] = (now() - t) / (rounds * burst);
    }
    return median(batch, n);
}

static void latency(const char *name, void (*operation)(size_t, int))
{
    report(name, 8, 1, measure(operation, 8, 1) * 1e6, "us");
}

static void bandwidth(const char *name, void (*operations)(size_t, int), size_t size)
{
    int burst = size >= 16 << 20 ? 4 : size >= 1 << 20 ? 16 : BURST;
    report(name, size, 1, (double) size / measure(operations, size, burst) / 1e6, "MB/s");
}

/* Waits for a word of this process's memory that is not `last`; gives it. */
static int64_t next_word(int64_t last)
{
    volatile int64_t *word = mine;
    while (*word == last) {
        must(gasnet_AMPoll(), "gasnet_AMPoll");
    }
    return *word;
}

static void put_word(int64_t word)
{
    gex_RMA_PutBlocking(team, 1 - rank, theirs, &word, sizeof(word), 0);
}

/* From a put to the look that sees it: half of a round trip, as rma_bench has it. On both ranks. */
static void seen(void)
{
    enum { ROUNDS = 20 };
    static const int64_t last = INT64_MIN;
    static double batch[BATCHES];
    int64_t word = 0, heard = 0;
    int n = 0;
    if (rank == 1) {
        while (heard != last) {
            heard = next_word(heard);
            put_word(heard);
        }
        return;
    }
    double begin = now();
    while (n < BATCHES && (!n || now() - begin < budget)) {
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

static void barrier(void)
{
    gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
}

static void attach_segments(void)
{
    gex_Segment_t segment;
    must(gex_Segment_Attach(&segment, team, LARGEST), "gex_Segment_Attach");
    mine = gex_Segment_QueryAddr(segment);
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(team, 1 - rank, &theirs, NULL, NULL, 0));
    memset(mine, 0, LARGEST);
    gex_AD_Create(&domain, team, GEX_DT_I64, GEX_OP_FADD | GEX_OP_FCAS | GEX_OP_ADD, 0);
    barrier();
}

int main(int argc, char **argv)
{
    gex_Client_t client;
    gex_EP_t endpoint;
    must(gex_Client_Init(&client, &endpoint, &team, "gasnet_rma", &argc, &argv, 0), "gex_Client_Init");
    rank = gex_TM_QueryRank(team);
    if (gex_TM_QuerySize(team) != 2) {
        fprintf(stderr, "gasnet_rma: run with 2 processes, not %d\n", (int) gex_TM_QuerySize(team));
        gasnet_exit(2);
    }
    size_t largest = argc > 1 ? (size_t) atoll(argv[1]) : LARGEST;
    pin((int) rank);
    attach_segments();
    seen();
    if (rank == 0) {
        latency("put_latency", put);
        latency("get_latency", get);
        latency("fetch_op_latency", fetch_add);
        latency("compare_swap_latency", compare_swap);
        latency("accumulate_latency", add);
        report("put_rate", 8, 1, 1 / measure(put, 8, BURST) / 1e6, "Mop/s");
        for (size_t size = 1 << 10; size <= LARGEST && size <= largest; size *= 4) {
            bandwidth("put_bandwidth", put, size);
            bandwidth("get_bandwidth", get, size);
        }
    }
    barrier();
    gasnet_exit(0);
}
