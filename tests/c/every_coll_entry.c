/* A layer replaces every collective of a communicator, blocking and nonblocking, counts the calls, and
 * calls the entry below. After each call of the program, exactly its entry was called, and its work was
 * done. */
#include "example.h"

#define LAYER 50
#define MOST 64

typedef struct {
    int blocking[HOST_COLL_ENTRIES];
    int started[HOST_COLL_ENTRIES];
} counts_t;

static counts_t counts, before;

static int count(void *data, const host_coll_layer_t *layer, host_comm_t *comm, int collective,
                 const host_coll_args_t *args) {
    EXPECT(args->magic == HOST_COLL_ARGS_MAGIC && args->size == sizeof *args);
    ((counts_t *)data)->blocking[collective]++;
    return host_coll_previous(data, layer, comm, collective, args);
}

static int count_start(void *data, const host_coll_layer_t *layer, host_comm_t *comm, int collective,
                       const host_coll_args_t *args, host_coll_request_t **request) {
    ((counts_t *)data)->started[collective]++;
    return host_coll_previous_start(data, layer, comm, collective, args, request);
}

/* A barrier that the layer runs itself: it completes when the barrier below has completed and was
 * tested once more. */
typedef struct {
    host_coll_request_t *below;
    int over;
} slow_t;

static int slow_ended;

static int ask_slow(void *state) {
    slow_t *slow = state;
    int done = 0;
    if (slow->over) {
        free(slow);
        slow_ended++;
        return 1;
    }
    if (host_coll_test(&slow->below, &done) != HOST_SUCCESS) {
        return HOST_ERR_COMM;
    }
    slow->over = done;
    return 0;
}

static int slow_start(void *data, const host_coll_layer_t *layer, host_comm_t *comm, int collective,
                      const host_coll_args_t *args, host_coll_request_t **request) {
    slow_t *slow = calloc(1, sizeof *slow);
    MUST(count_start(data, layer, comm, collective, args, &slow->below));
    return host_coll_request_of_layer(comm, ask_slow, slow, request);
}

static int made(host_comm_t *comm, void *param) {
    host_coll_table_t table = {.magic = HOST_COLL_TABLE_MAGIC, .size = sizeof table};
    MUST(host_comm_get_table(comm, &table));
    table.data = param;
    for (size_t entry = 0; entry < HOST_COLL_ENTRIES; entry++) {
        table.entries[entry].blocking = count;
        table.entries[entry].nonblocking = count_start;
    }
    table.entries[HOST_COLL_BARRIER].nonblocking = slow_start;
    return host_comm_override(comm, &table);
}

static int ended(host_comm_t *comm, void *param) {
    (void)param;
    return host_comm_restore(comm);
}

/* Exactly one entry was called since `then`, once. */
static void called(const int *now, const int *then, size_t entry) {
    for (size_t other = 0; other < HOST_COLL_ENTRIES; other++) {
        if (now[other] - then[other] != (other == entry)) {
            fprintf(stderr, "entry %zu: %d calls more, after a call of %zu\n", other,
                    now[other] - then[other], entry);
            exit(1);
        }
    }
}

#define BLOCKING(entry, call)                                                         \
    do {                                                                              \
        before = counts;                                                              \
        MUST(call);                                                                   \
        called(counts.blocking, before.blocking, HOST_COLL_##entry);                  \
        EXPECT(memcmp(counts.started, before.started, sizeof counts.started) == 0);   \
    } while (0)

#define STARTED(entry, call)                                                          \
    do {                                                                              \
        before = counts;                                                              \
        MUST(call);                                                                   \
        MUST(host_coll_wait(&request));                                               \
        called(counts.started, before.started, HOST_COLL_##entry);                    \
        EXPECT(memcmp(counts.blocking, before.blocking, sizeof counts.blocking) == 0); \
    } while (0)

int main(void) {
    host_comm_t *world = NULL, *comm = NULL;
    host_coll_request_t *request = NULL, *several[3] = {NULL, NULL, NULL};
    int32_t mine[2 * MOST], all[2 * MOST];
    size_t each[MOST], gaps[MOST];
    MUST(host_init());
    MUST(host_comm_world(&world));
    MUST(host_comm_hooks_register(LAYER, made, ended, &counts));
    MUST(host_comm_dup(world, &comm));
    int rank = host_comm_rank(comm), size = host_comm_size(comm), end = size - 1;
    EXPECT(size <= MOST);
    memset(mine, 0, sizeof mine);
    for (int i = 0; i < size; i++) {
        mine[i] = 10 * rank + i, each[i] = 1;
        gaps[i] = 2 * (end - i);
    }
    mine[size] = 10 * rank + size;
    int sum = 5 * size * (size - 1), below = 5 * rank * (rank - 1);

    for (int way = 0; way < 2; way++) {
/* Calls a collective, or its nonblocking form. */
#define EITHER(entry, name, ...)                                  \
    do {                                                          \
        memset(all, 0xff, sizeof all);                            \
        if (way == 0) {                                           \
            BLOCKING(entry, host_##name(__VA_ARGS__, comm));      \
        } else {                                                  \
            STARTED(entry, host_i##name(__VA_ARGS__, comm, &request)); \
        }                                                         \
    } while (0)
        if (way == 0) {
            BLOCKING(BARRIER, host_comm_barrier(comm));
        } else {
            STARTED(BARRIER, host_comm_ibarrier(comm, &request));
            EXPECT(slow_ended == 1);
        }
        int32_t from_end = rank == end ? 77 : 0;
        EITHER(BCAST, bcast, &from_end, 1, HOST_INT32, end);
        EXPECT(from_end == 77);
        EITHER(REDUCE, reduce, mine, all, 1, HOST_INT32, HOST_SUM, end);
        EXPECT(rank != end || all[0] == sum);
        EITHER(ALLREDUCE, allreduce, mine, all, 1, HOST_INT32, HOST_SUM);
        EXPECT(all[0] == sum);
        double half = rank + 0.5, greatest = 0;
        EITHER(ALLREDUCE, allreduce, &half, &greatest, 1, HOST_DOUBLE, HOST_MAX);
        EXPECT(greatest == end + 0.5);
        EITHER(GATHER, gather, mine, all, 1, HOST_INT32, 0);
        EXPECT(rank != 0 || all[end] == 10 * end);
        EITHER(SCATTER, scatter, mine, all, 1, HOST_INT32, 0);
        EXPECT(all[0] == rank);
        EITHER(ALLGATHER, allgather, mine, all, 1, HOST_INT32);
        EXPECT(all[end] == 10 * end && all[0] == 0);
        EITHER(ALLTOALL, alltoall, mine, all, 1, HOST_INT32);
        EXPECT(all[end] == 10 * end + rank);
        EITHER(REDUCE_SCATTER, reduce_scatter, mine, all, each, HOST_INT32, HOST_SUM);
        EXPECT(all[0] == sum + size * rank);
        EITHER(REDUCE_SCATTER, reduce_scatter_block, mine, all, 1, HOST_INT32, HOST_SUM);
        EXPECT(all[0] == sum + size * rank);
        EITHER(SCAN, scan, mine, all, 1, HOST_INT32, HOST_SUM);
        EXPECT(all[0] == below + 10 * rank);
        EITHER(EXSCAN, exscan, mine, all, 1, HOST_INT32, HOST_SUM);
        EXPECT(rank == 0 ? all[0] == -1 : all[0] == below);
        /* The blocks lie in reverse order, with gaps. */
        EITHER(ALLGATHERV, allgatherv, mine, 1, all, each, gaps, HOST_INT32);
        EXPECT(all[0] == 10 * end && all[1] == -1 && all[2 * end] == 0);
        EITHER(ALLTOALLV, alltoallv, mine, each, each, all, each, gaps, HOST_INT32);
        EXPECT(all[0] == 10 * end + 1 && all[1] == -1);
    }

    /* Several requests at the same time; one has already ended. */
    before = counts;
    MUST(host_comm_ibarrier(comm, &several[0]));
    MUST(host_iallreduce(mine, all, 1, HOST_INT32, HOST_SUM, comm, &several[2]));
    MUST(host_coll_waitall(3, several));
    EXPECT(several[0] == NULL && several[2] == NULL && all[0] == sum && slow_ended == 2);
    EXPECT(host_coll_waitall(1, NULL) == HOST_ERR_ARG);
    EXPECT(host_coll_request_of_layer(comm, NULL, NULL, &request) == HOST_ERR_ARG && request == NULL);

    /* The end of the communicator waits for the layer's collective; the outcome of its request
     * is still available. */
    MUST(host_comm_ibarrier(comm, &request));
    MUST(host_comm_free(&comm));
    EXPECT(slow_ended == 3);
    MUST(host_coll_wait(&request));
    MUST(host_comm_hooks_unregister(LAYER));
    MUST(host_finalize());
    printf("passed\n");
    return 0;
}
