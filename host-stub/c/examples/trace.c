/* A layer that traces the collectives of a program: which rank calls which, on which communicator, how
 * often, with how many elements, and how long they take. It overrides every entry and passes each call on. */
#include <pthread.h>
#include <time.h>

#include "example.h"

/* Create hooks run from the highest layer to the lowest, and calls come first to the table that was set last.
 * Below the host's node-local collectives, layer 100, the trace sees calls before those do. */
#define LAYER 10

enum { BLOCKING, NONBLOCKING, FORMS };

static const char *const names[HOST_COLL_ENTRIES] = {
    [HOST_COLL_BARRIER] = "barrier",
    [HOST_COLL_BCAST] = "bcast",
    [HOST_COLL_REDUCE] = "reduce",
    [HOST_COLL_ALLREDUCE] = "allreduce",
    [HOST_COLL_GATHER] = "gather",
    [HOST_COLL_SCATTER] = "scatter",
    [HOST_COLL_ALLGATHER] = "allgather",
    [HOST_COLL_ALLTOALL] = "alltoall",
    [HOST_COLL_REDUCE_SCATTER] = "reduce_scatter",
    [HOST_COLL_SCAN] = "scan",
    [HOST_COLL_EXSCAN] = "exscan",
    [HOST_COLL_ALLGATHERV] = "allgatherv",
    [HOST_COLL_ALLTOALLV] = "alltoallv",
};

/* One line of the trace. Ranks send them as 64-bit words. */
typedef struct {
    int64_t rank;     /* Of the job. */
    int64_t comm;     /* In the order in which this rank made its communicators, from 1. */
    int64_t size;     /* Ranks of the communicator. */
    int64_t entry;    /* HOST_COLL_*. */
    int64_t form;
    int64_t calls;
    int64_t failures;
    int64_t elements; /* That the rank gives: of the count argument, or of the list of counts. */
    int64_t total;    /* Nanoseconds of all calls. */
    int64_t longest;  /* Nanoseconds of the longest. */
} line_t;

#define WORDS (sizeof(line_t) / sizeof(int64_t))

/* The trace of one communicator; it stays when the communicator is freed. */
typedef struct trace {
    struct trace *before;
    line_t lines[HOST_COLL_ENTRIES][FORMS];
} trace_t;

/* Any thread may call a collective or make progress. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static trace_t *newest;

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int64_t elements(host_comm_t *comm, int collective, const host_coll_args_t *args) {
    const size_t *counts = collective == HOST_COLL_ALLTOALLV ? args->given.counts : args->counts;
    if (!counts) {
        return (int64_t)args->count;
    }
    size_t blocks = (size_t)host_comm_size(comm);
    int64_t sum = 0;
    for (size_t block = 0; block < blocks; block++) {
        sum += (int64_t)counts[block];
    }
    return sum;
}

static void note(line_t *line, int64_t count, int64_t began, int failed) {
    int64_t took = now() - began;
    pthread_mutex_lock(&lock);
    line->calls++;
    line->failures += failed;
    line->elements += count;
    line->total += took;
    line->longest = took > line->longest ? took : line->longest;
    pthread_mutex_unlock(&lock);
}

static int traced(void *data, const host_coll_layer_t *layer, host_comm_t *comm, int collective,
                  const host_coll_args_t *args) {
    trace_t *trace = data;
    int64_t began = now();
    int code = host_coll_previous(data, layer, comm, collective, args);
    note(&trace->lines[collective][BLOCKING], elements(comm, collective, args), began, code < 0);
    return code;
}

/* A nonblocking collective under way. */
typedef struct {
    host_coll_request_t *below;
    line_t *line;
    int64_t count;
    int64_t began;
} started_t;

/* Called until it says that the collective is over. The time ends here: when somebody asks. */
static int ask(void *state) {
    started_t *started = state;
    int done = 0, code = host_coll_test(&started->below, &done);
    if (code == HOST_SUCCESS && !done) {
        return 0;
    }
    note(started->line, started->count, started->began, code < 0);
    free(started);
    return code < 0 ? code : 1;
}

static int traced_start(void *data, const host_coll_layer_t *layer, host_comm_t *comm, int collective,
                        const host_coll_args_t *args, host_coll_request_t **request) {
    trace_t *trace = data;
    started_t *started = malloc(sizeof *started);
    if (!started) {
        return HOST_ERR_COMM;
    }
    *started = (started_t){NULL, &trace->lines[collective][NONBLOCKING], elements(comm, collective, args), now()};
    int code = host_coll_previous_start(data, layer, comm, collective, args, &started->below);
    if (code < 0) {
        note(started->line, started->count, started->began, 1);
        free(started);
        return code;
    }
    code = host_coll_request_of_layer(comm, ask, started, request);
    if (code < 0) {
        /* Nobody else can end it, and its buffers are in use until then. */
        host_coll_wait(&started->below);
        free(started);
    }
    return code;
}

static int made(host_comm_t *comm, void *param) {
    (void)param;
    host_coll_table_t table = {.magic = HOST_COLL_TABLE_MAGIC, .size = sizeof table};
    int code = host_comm_get_table(comm, &table);
    trace_t *trace = code < 0 ? NULL : calloc(1, sizeof *trace);
    if (!trace) {
        return code < 0 ? code : HOST_ERR_COMM;
    }
    table.data = trace;
    /* Every entry that this program knows; those of a newer host stay as they are. */
    for (size_t entry = 0; entry < HOST_COLL_ENTRIES; entry++) {
        table.entries[entry].blocking = traced;
        table.entries[entry].nonblocking = traced_start;
    }
    code = host_comm_override(comm, &table);
    if (code < 0) {
        free(trace);
        return code;
    }
    pthread_mutex_lock(&lock);
    int64_t number = newest ? newest->lines[0][0].comm + 1 : 1;
    for (int entry = 0; entry < HOST_COLL_ENTRIES; entry++) {
        for (int form = 0; form < FORMS; form++) {
            trace->lines[entry][form] = (line_t){
                .rank = host_rank(), .comm = number, .size = host_comm_size(comm), .entry = entry, .form = form};
        }
    }
    trace->before = newest;
    newest = trace;
    pthread_mutex_unlock(&lock);
    return HOST_SUCCESS;
}

static int ended(host_comm_t *comm, void *param) {
    (void)param;
    return host_comm_restore(comm);
}

/* Copies the lines with calls, the oldest communicator first; counts them if `into` is NULL. */
static size_t lines_of(const trace_t *trace, line_t *into) {
    size_t count = trace->before ? lines_of(trace->before, into) : 0;
    for (int entry = 0; entry < HOST_COLL_ENTRIES; entry++) {
        for (int form = 0; form < FORMS; form++) {
            if (trace->lines[entry][form].calls == 0) {
                continue;
            }
            if (into) {
                into[count] = trace->lines[entry][form];
            }
            count++;
        }
    }
    return count;
}

/* Brings the lines of all ranks to rank 0 of a communicator that is not traced: `*all` of it, `*room` for
 * each rank, of which those without calls are unused. */
static void collect(host_comm_t *comm, line_t **all, int64_t *room) {
    int64_t count = newest ? (int64_t)lines_of(newest, NULL) : 0;
    MUST(host_allreduce(&count, room, 1, HOST_INT64, HOST_MAX, comm));
    line_t *mine = calloc((size_t)*room + 1, sizeof *mine);
    *all = calloc((size_t)*room * (size_t)host_comm_size(comm) + 1, sizeof **all);
    EXPECT(mine && *all);
    if (newest) {
        lines_of(newest, mine);
    }
    MUST(host_gather(mine, *all, (size_t)*room * WORDS, HOST_INT64, 0, comm));
    free(mine);
}

static void print(const line_t *lines, size_t count) {
    printf("%4s %4s %5s %-19s %6s %6s %9s %10s %10s\n", "rank", "comm", "ranks", "collective", "calls", "failed",
           "elements", "total us", "longest us");
    for (const line_t *line = lines; line < lines + count; line++) {
        if (line->calls == 0) {
            continue;
        }
        char name[32];
        snprintf(name, sizeof name, "%s%s", line->form == NONBLOCKING ? "i" : "", names[line->entry]);
        printf("%4d %4d %5d %-19s %6d %6d %9d %10.1f %10.1f\n", (int)line->rank, (int)line->comm, (int)line->size,
               name, (int)line->calls, (int)line->failures, (int)line->elements, (double)line->total / 1e3,
               (double)line->longest / 1e3);
    }
}

/* A program's work: one sum in 3 steps, everything else once. */
static void work(host_comm_t *comm) {
    int rank = host_comm_rank(comm), size = host_comm_size(comm);
    int32_t mine[64] = {0}, all[64] = {0}, sum = 0;
    size_t counts[64] = {0}, ones[64] = {0}, places[64] = {0};
    host_coll_request_t *request = NULL;
    EXPECT(size <= 32);
    for (int step = 1; step <= 3; step++) {
        MUST(host_allreduce(&step, &sum, 1, HOST_INT32, HOST_SUM, comm));
        EXPECT(sum == step * size);
        MUST(host_iallreduce(&step, &sum, 1, HOST_INT32, HOST_SUM, comm, &request));
        MUST(host_coll_wait(&request));
        EXPECT(sum == step * size);
    }
    MUST(host_comm_barrier(comm));
    mine[0] = mine[1] = rank == 0 ? 5 : 0;
    MUST(host_bcast(mine, 2, HOST_INT32, 0, comm));
    EXPECT(mine[1] == 5);
    MUST(host_reduce(mine, all, 2, HOST_INT32, HOST_SUM, 0, comm));
    MUST(host_gather(mine, all, 1, HOST_INT32, 0, comm));
    MUST(host_scatter(all, mine, 1, HOST_INT32, 0, comm));
    MUST(host_allgather(mine, all, 1, HOST_INT32, comm));
    EXPECT(all[size - 1] == 5);
    for (int other = 0; other < size; other++) {
        mine[2 * other] = mine[2 * other + 1] = other, counts[other] = 2;
    }
    MUST(host_reduce_scatter(mine, all, counts, HOST_INT32, HOST_SUM, comm));
    EXPECT(all[0] == rank * size && all[1] == rank * size);
    MUST(host_alltoall(mine, all, 2, HOST_INT32, comm));
    EXPECT(all[2 * size - 1] == rank);
    mine[0] = 1;
    MUST(host_scan(mine, all, 1, HOST_INT32, HOST_SUM, comm));
    EXPECT(all[0] == rank + 1);
    MUST(host_exscan(mine, all, 1, HOST_INT32, HOST_SUM, comm));
    EXPECT(rank == 0 || all[0] == rank);
    for (int other = 0; other < size; other++) {
        ones[other] = 1, places[other] = (size_t)other;
        mine[other] = 10 * other + rank;
    }
    MUST(host_alltoallv(mine, ones, places, all, ones, places, HOST_INT32, comm));
    EXPECT(all[size - 1] == 10 * rank + size - 1);
    MUST(host_allgatherv(mine, 1, all, ones, places, HOST_INT32, comm));
    EXPECT(all[size - 1] == size - 1);
    /* Freeing the communicator waits for this one. */
    MUST(host_comm_ibarrier(comm, &request));
    MUST(host_comm_free(&comm));
    MUST(host_coll_wait(&request));
}

/* The lines of a rank and a communicator are those of `work`. */
static void check(const line_t *lines, size_t count, int rank, int comm, int size) {
    int seen[HOST_COLL_ENTRIES][FORMS] = {{0}};
    for (const line_t *line = lines; line < lines + count; line++) {
        if (line->calls == 0 || line->rank != rank || line->comm != comm) {
            continue;
        }
        int64_t calls = line->entry == HOST_COLL_ALLREDUCE ? 3 : 1, each = 1;
        switch (line->entry) {
        case HOST_COLL_BARRIER: each = 0; break;
        case HOST_COLL_BCAST:
        case HOST_COLL_REDUCE:
        case HOST_COLL_ALLTOALL: each = 2; break;
        case HOST_COLL_REDUCE_SCATTER: each = 2 * size; break;
        case HOST_COLL_ALLTOALLV: each = size; break;
        }
        EXPECT(line->size == size && line->calls == calls && line->failures == 0);
        EXPECT(line->elements == calls * each);
        EXPECT(line->longest > 0 && line->longest <= line->total);
        seen[line->entry][line->form]++;
    }
    for (int entry = 0; entry < HOST_COLL_ENTRIES; entry++) {
        EXPECT(names[entry] && seen[entry][BLOCKING] == 1);
        EXPECT(seen[entry][NONBLOCKING] == (entry == HOST_COLL_ALLREDUCE || entry == HOST_COLL_BARRIER));
    }
}

int main(void) {
    host_comm_t *world = NULL, *half = NULL, *comm = NULL;
    MUST(host_init());
    MUST(host_comm_world(&world));
    int rank = host_comm_rank(world), size = host_comm_size(world);
    MUST(host_comm_split(world, rank % 2, rank, &half));

    MUST(host_comm_hooks_register(LAYER, made, ended, NULL));
    MUST(host_comm_dup(world, &comm));
    work(comm);
    MUST(host_comm_dup(half, &comm));
    work(comm);
    MUST(host_comm_hooks_unregister(LAYER));
    MUST(host_comm_free(&half));

    line_t *lines = NULL;
    int64_t room = 0;
    collect(world, &lines, &room);
    if (rank == 0) {
        size_t count = (size_t)room * (size_t)size;
        print(lines, count);
        for (int other = 0; other < size; other++) {
            check(lines, count, other, 1, size);
            check(lines, count, other, 2, (size + 1 - other % 2) / 2);
        }
    }
    free(lines);
    /* The table is whole before other ranks print. */
    fflush(stdout);
    MUST(host_comm_barrier(world));
    while (newest) {
        trace_t *before = newest->before;
        free(newest);
        newest = before;
    }
    MUST(host_finalize());
    printf("passed\n");
    return 0;
}
