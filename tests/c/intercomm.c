/* Two groups, the even and the odd ranks of the world, below a layer that counts the collectives of
 * intercommunicators: every collective that goes from one group to the other, and what is refused. */
#include "example.h"

#define LAYER 50
#define MOST 16

static int side, rank, size, others;
static host_comm_t *world, *half, *inter;
static host_coll_request_t *request;
static int32_t mine[MOST * MOST], all[MOST * MOST];

/* What the layer has seen. */
static int blocking[HOST_COLL_ENTRIES], started[HOST_COLL_ENTRIES], overridden;

static void refused(int code, const char *why) {
    if (code >= 0 || !strstr(host_error_text(), why)) {
        fprintf(stderr, "%d, %s: not refused because of %s\n", code, host_error_text(), why);
        exit(1);
    }
}

static int count(void *data, const host_coll_layer_t *layer, host_comm_t *comm, int collective,
                 const host_coll_args_t *args) {
    blocking[collective]++;
    return host_coll_previous(data, layer, comm, collective, args);
}

static int count_start(void *data, const host_coll_layer_t *layer, host_comm_t *comm, int collective,
                       const host_coll_args_t *args, host_coll_request_t **below) {
    started[collective]++;
    return host_coll_previous_start(data, layer, comm, collective, args, below);
}

/* Overrides communicators of two groups, and leaves all others alone. */
static int made(host_comm_t *comm, void *param) {
    (void)param;
    if (host_comm_test_inter(comm) != 1) {
        return HOST_SUCCESS;
    }
    host_coll_table_t table = {.magic = HOST_COLL_TABLE_MAGIC, .size = sizeof table};
    MUST(host_comm_get_table(comm, &table));
    for (size_t entry = 0; entry < HOST_COLL_ENTRIES; entry++) {
        table.entries[entry].blocking = count;
        table.entries[entry].nonblocking = count_start;
    }
    overridden++;
    return host_comm_override(comm, &table);
}

static int ended(host_comm_t *comm, void *param) {
    (void)param;
    return host_comm_test_inter(comm) == 1 ? host_comm_restore(comm) : HOST_SUCCESS;
}

/* The sum of so many values that differ by 10. */
static int sum(int first, int ranks) {
    return ranks * first + 5 * ranks * (ranks - 1);
}

/* Every collective, blocking or nonblocking. Rank 0 of the even ranks is the root. */
static void collectives(int nonblocking) {
/* The call, which the layer sees once, in this form and no other. */
#define EITHER(entry, name, ...)                                                     \
    do {                                                                             \
        int calls = blocking[HOST_COLL_##entry], starts = started[HOST_COLL_##entry]; \
        memset(all, 0xff, sizeof all);                                               \
        if (nonblocking) {                                                           \
            MUST(host_i##name(__VA_ARGS__, inter, &request));                        \
            MUST(host_coll_wait(&request));                                          \
        } else {                                                                     \
            MUST(host_##name(__VA_ARGS__, inter));                                   \
        }                                                                            \
        EXPECT(blocking[HOST_COLL_##entry] == calls + !nonblocking);                 \
        EXPECT(started[HOST_COLL_##entry] == starts + nonblocking);                  \
    } while (0)
    int is_root = side == 0 && rank == 0;
    int root = side == 1 ? 0 : is_root ? HOST_ROOT : HOST_PROC_NULL;
    int theirs = 100 * (1 - side), far = others - 1;
    size_t ones[MOST], gaps[MOST], bytes[MOST], parts[MOST];
    int types[MOST];
    for (int i = 0; i < MOST; i++) {
        ones[i] = 1, gaps[i] = i < others ? 2 * (size_t)(far - i) : 0, types[i] = HOST_INT32;
        bytes[i] = sizeof *mine * gaps[i], parts[i] = (size_t)others;
    }
    int32_t word = is_root ? 77 : 0;
    EITHER(BCAST, bcast, &word, 1, HOST_INT32, root);
    EXPECT(word == (side == 1 || is_root ? 77 : 0));
    EITHER(REDUCE, reduce, mine, all, 1, HOST_INT32, HOST_SUM, root);
    EXPECT(all[0] == (is_root ? sum(100, others) : -1));
    EITHER(ALLREDUCE, allreduce, mine, all, 1, HOST_INT32, HOST_SUM);
    EXPECT(all[0] == sum(theirs, others));
    EITHER(GATHER, gather, mine, all, 1, HOST_INT32, root);
    EXPECT(all[far] == (is_root ? 100 + 10 * far : -1));
    EITHER(SCATTER, scatter, mine, all, 1, HOST_INT32, root);
    EXPECT(all[0] == (side == 1 ? rank : -1));
    EITHER(ALLGATHER, allgather, mine, all, 1, HOST_INT32);
    EXPECT(all[0] == theirs && all[far] == theirs + 10 * far && all[others] == -1);
    EITHER(ALLTOALL, alltoall, mine, all, 1, HOST_INT32);
    EXPECT(all[far] == theirs + 10 * far + rank);
    EITHER(REDUCE_SCATTER, reduce_scatter, mine, all, parts, HOST_INT32, HOST_SUM);
    EXPECT(all[0] == sum(theirs + rank * others, others) && all[others] == -1);
    EITHER(REDUCE_SCATTER, reduce_scatter_block, mine, all, (size_t)others, HOST_INT32, HOST_SUM);
    EXPECT(all[far] == sum(theirs + rank * others + far, others));
    EITHER(GATHERV, gatherv, mine, 1, all, ones, gaps, HOST_INT32, root);
    EXPECT(all[0] == (is_root ? 100 + 10 * far : -1) && all[1] == -1);
    EITHER(SCATTERV, scatterv, mine, ones, gaps, all, 1, HOST_INT32, root);
    EXPECT(all[0] == (side == 1 ? 2 * (size - 1 - rank) : -1));
    EITHER(ALLGATHERV, allgatherv, mine, 1, all, ones, gaps, HOST_INT32);
    EXPECT(all[0] == theirs + 10 * far && all[1] == -1 && all[2 * far] == theirs);
    EITHER(ALLTOALLV, alltoallv, mine, ones, gaps, all, ones, gaps, HOST_INT32);
    EXPECT(all[2 * far] == theirs + 2 * (size - 1 - rank));
    EITHER(ALLTOALLW, alltoallw, mine, ones, bytes, types, all, ones, bytes, types);
    EXPECT(all[2 * far] == theirs + 2 * (size - 1 - rank));
}

static void persistent(void) {
    int32_t word = 0;
    host_persistent_t *again = NULL;
    host_coll_args_t args = {.magic = HOST_COLL_ARGS_MAGIC, .size = sizeof args, .recv = &word, .count = 1,
                             .datatype = HOST_INT32,
                             .root = side == 1 ? 0 : rank == 0 ? HOST_ROOT : HOST_PROC_NULL};
    MUST(host_coll_init(inter, HOST_COLL_BCAST, &args, &again));
    for (int turn = 1; turn <= 3; turn++) {
        word = side == 0 && rank == 0 ? turn : -1;
        MUST(host_coll_start(again));
        MUST(host_coll_finish(again));
        EXPECT(word == (side == 1 || rank == 0 ? turn : -1));
    }
    MUST(host_coll_free(&again));
}

static void mistakes(void) {
    host_comm_t *none = NULL;
    int32_t word = 0;
    refused(host_scan(&word, all, 1, HOST_INT32, HOST_SUM, inter), "not defined on an intercommunicator");
    refused(host_iexscan(&word, all, 1, HOST_INT32, HOST_SUM, inter, &request), "not defined on an intercommunicator");
    refused(host_bcast(&word, 1, HOST_INT32, others, inter), "in the other group");
    refused(host_bcast(&word, 1, HOST_INT32, HOST_ROOT, half), "for intercommunicators");
    refused(host_bcast(&word, 1, HOST_INT32, -9, inter), "no rank -9");
    refused(host_allreduce(NULL, all, 1, HOST_INT32, HOST_SUM, inter), "send buffer");
    refused(host_comm_split(inter, 0, 0, &none), "is an intercommunicator");
    refused(host_intercomm_merge(half, 0, &none), "no intercommunicator");
    refused(host_intercomm_create(half, 0, NULL, 1 - side, 3, &none), "no peer communicator");
    refused(host_intercomm_create(half, 0, world, -1, 3, &none), "no remote leader");
    refused(host_intercomm_create(half, -1, world, 1 - side, 3, &none), "no leader");
    refused(host_intercomm_create(half, 0, world, side, 3, &none), "in its own group");
    EXPECT(none == NULL && request == NULL);
}

int main(void) {
    MUST(host_init());
    MUST(host_comm_world(&world));
    MUST(host_comm_hooks_register(LAYER, made, ended, NULL));
    int place = host_comm_rank(world);
    EXPECT(host_comm_test_inter(world) == 0 && host_comm_remote_size(world) == 0);
    refused(host_comm_remote_job_rank(world, 0), "another group of 0 ranks");
    if (host_comm_size(world) > 1) {
        side = place % 2;
        MUST(host_comm_split(world, side, place, &half));
        MUST(host_intercomm_create(half, 0, world, 1 - side, 3, &inter));
        EXPECT(overridden == 1 && host_comm_test_inter(inter) == 1);
        rank = host_comm_rank(inter), size = host_comm_size(inter), others = host_comm_remote_size(inter);
        EXPECT(rank == host_comm_rank(half) && size == host_comm_size(half));
        EXPECT(size + others == host_comm_size(world) && size + others <= MOST);
        EXPECT(host_comm_job_rank(inter, rank) == place);
        EXPECT(host_comm_remote_job_rank(inter, others - 1) == 2 * (others - 1) + 1 - side);
        for (int i = 0; i < MOST * MOST; i++) {
            mine[i] = 100 * side + 10 * rank + i;
        }
        MUST(host_comm_barrier(inter));
        collectives(0);
        collectives(1);
        persistent();
        mistakes();
        host_comm_t *both = NULL;
        MUST(host_intercomm_merge(inter, side == 0, &both));
        EXPECT(host_comm_test_inter(both) == 0 && host_comm_size(both) == size + others);
        EXPECT(host_comm_rank(both) == (side == 0 ? others + rank : rank));
        MUST(host_comm_free(&both));
        MUST(host_comm_free(&inter));
        MUST(host_comm_free(&half));
    }
    MUST(host_comm_hooks_unregister(LAYER));
    MUST(host_finalize());
    printf("passed\n");
    return 0;
}
