/* Communicators, collectives, and a layer that overrides two of them. */
#include "example.h"

/* Layer 100, the host's node-local collectives, lies above: this layer's create hook runs later, so
 * calls reach this layer first. */
#define LAYER 50

typedef struct {
    int made;
    int ended;
    int blocking;
    int started;
    int refused;
} layer_t;

static int count(void *data, const host_coll_layer_t *layer, host_comm_t *comm, int collective,
                 const host_coll_args_t *args) {
    ((layer_t *)data)->blocking++;
    return host_coll_previous(data, layer, comm, collective, args);
}

static int count_start(void *data, const host_coll_layer_t *layer, host_comm_t *comm, int collective,
                       const host_coll_args_t *args, host_coll_request_t **request) {
    ((layer_t *)data)->started++;
    return host_coll_previous_start(data, layer, comm, collective, args, request);
}

static int made(host_comm_t *comm, void *param) {
    layer_t *layer = param;
    host_coll_table_t table = {.magic = HOST_COLL_TABLE_MAGIC, .size = sizeof table};
    MUST(host_comm_get_table(comm, &table));
    table.data = layer;
    host_coll_entry_t *allreduce = &table.entries[HOST_COLL_ALLREDUCE];
    allreduce->blocking = count;
    allreduce->nonblocking = NULL;
    if (host_comm_override(comm, &table) == HOST_ERR_ARG && strstr(host_error_text(), "allreduce")) {
        layer->refused++;
    }
    allreduce->nonblocking = count_start;
    table.size--;
    EXPECT(host_comm_override(comm, &table) == HOST_ERR_ARG);
    table.size++;
    layer->made++;
    return host_comm_override(comm, &table);
}

static int ended(host_comm_t *comm, void *param) {
    ((layer_t *)param)->ended++;
    return host_comm_restore(comm);
}

static int refuse(host_comm_t *comm, void *param) {
    (void)comm, (void)param;
    return -77;
}

/* A lower layer, which keeps a window over the world until host_finalize ends both. */
static host_win_t *over_world;
static int finalizing;

static int world_made(host_comm_t *comm, void *param) {
    (void)comm, (void)param;
    return HOST_SUCCESS;
}

static int world_ended(host_comm_t *comm, void *param) {
    (void)param;
    if (finalizing) {
        host_comm_t *another = NULL;
        finalizing++;
        EXPECT(host_rank() == host_comm_rank(comm));
        EXPECT(host_comm_world(&another) != HOST_SUCCESS && host_finalize() == HOST_ERR_STATE);
        MUST(host_win_free(&over_world));
    }
    return HOST_SUCCESS;
}

static int64_t sum(host_comm_t *comm, int64_t value) {
    int64_t total = 0;
    MUST(host_allreduce(&value, &total, 1, HOST_INT64, HOST_SUM, comm));
    return total;
}

int main(void) {
    host_comm_t *world = NULL, *copy = NULL, *other = NULL, *half = NULL, *node = NULL, *alone = NULL;
    layer_t layer = {0, 0, 0, 0, 0};
    MUST(host_init());
    MUST(host_comm_hooks_register(LAYER - 1, world_made, world_ended, NULL));
    MUST(host_comm_world(&world));
    int rank = host_comm_rank(world), size = host_comm_size(world);
    EXPECT(sum(world, rank) == (int64_t)size * (size - 1) / 2);

    MUST(host_comm_hooks_register(LAYER, made, ended, &layer));
    MUST(host_comm_dup(world, &copy));
    MUST(host_comm_dup(world, &other));
    EXPECT(layer.made == 2 && layer.refused == 2);
    EXPECT(sum(copy, 1) == size && layer.blocking == 1);
    EXPECT(sum(world, 1) == size && layer.blocking == 1);
    int64_t one = 1, total = 0;
    host_coll_request_t *request = NULL;
    MUST(host_iallreduce(&one, &total, 1, HOST_INT64, HOST_SUM, copy, &request));
    MUST(host_coll_wait(&request));
    EXPECT(total == size && layer.started == 1 && request == NULL);
    MUST(host_coll_wait(&request));
    host_coll_table_t late = {.magic = HOST_COLL_TABLE_MAGIC, .size = sizeof late};
    MUST(host_comm_get_table(copy, &late));
    EXPECT(host_comm_override(copy, &late) == HOST_ERR_ARG);
    MUST(host_comm_free(&copy));
    MUST(host_comm_free(&other));
    EXPECT(copy == NULL && layer.ended == 2);
    MUST(host_comm_hooks_unregister(LAYER));

    /* Both calls refuse an unknown collective and missing arguments. */
    host_coll_args_t args = host_coll_args(&one, &total, 1, HOST_INT64, HOST_SUM, 0);
    EXPECT(host_coll(world, HOST_COLL_ENTRIES, &args) == HOST_ERR_ARG && host_coll(world, -1, &args) == HOST_ERR_ARG);
    EXPECT(host_coll(world, HOST_COLL_BARRIER, NULL) == HOST_ERR_ARG);
    EXPECT(host_coll_start(world, HOST_COLL_ENTRIES, &args, &request) == HOST_ERR_ARG && request == NULL);
    EXPECT(host_coll_start(world, HOST_COLL_ALLREDUCE, &args, NULL) == HOST_ERR_ARG);
    EXPECT(host_coll(NULL, HOST_COLL_ALLREDUCE, &args) == HOST_ERR_ARG && strstr(host_error_text(), "host_comm_world"));
    EXPECT(host_reduce_scatter(&one, &total, NULL, HOST_INT64, HOST_SUM, world) == HOST_ERR_ARG);

    /* A failed hook makes the creation fail on every rank. */
    MUST(host_comm_hooks_register(LAYER, refuse, NULL, NULL));
    EXPECT(host_comm_dup(world, &copy) == HOST_ERR_COMM && copy == NULL);
    EXPECT(strstr(host_error_text(), "-77") != NULL);
    MUST(host_comm_hooks_unregister(LAYER));

    int first = 0;
    MUST(host_comm_split(world, rank % 2 == 0 ? 0 : HOST_UNDEFINED, -rank, &half));
    EXPECT((half != NULL) == (rank % 2 == 0));
    if (half) {
        EXPECT(host_comm_rank(half) == host_comm_size(half) - 1 - rank / 2);
        MUST(host_comm_free(&half));
    }
    MUST(host_comm_split_by_node(world, rank, &node));
    EXPECT(host_comm_size(node) >= 1);
    MUST(host_comm_free(&node));
    MUST(host_comm_create(world, &first, 1, &alone));
    EXPECT((alone != NULL) == (rank == 0));
    if (alone) {
        MUST(host_comm_free(&alone));
    }

    int32_t mine[1] = {rank}, all[1];
    MUST(host_comm_ibarrier(world, &request));
    for (int done = 0; !done;) {
        MUST(host_coll_test(&request, &done));
    }
    EXPECT(request == NULL);

    /* Invalid calls are errors. */
    EXPECT(host_comm_barrier(NULL) == HOST_ERR_ARG && host_comm_rank((host_comm_t *)12345) == HOST_ERR_ARG);
    EXPECT(host_comm_free(&world) == HOST_ERR_ARG && host_comm_free(NULL) == HOST_ERR_ARG);
    EXPECT(host_bcast(NULL, 4, HOST_INT32, 0, world) == HOST_ERR_ARG);
    EXPECT(host_bcast(mine, 1, HOST_INT32, size, world) == HOST_ERR_ARG);
    EXPECT(host_allreduce(mine, all, 1, HOST_DOUBLE, HOST_BXOR, world) == HOST_ERR_ARG);
    EXPECT(host_allreduce(mine, all, 1, HOST_DOUBLE + 1, HOST_SUM, world) == HOST_ERR_ARG);
    EXPECT(host_allreduce(mine, all, 1, HOST_INT32, HOST_NO_OP + 1, world) == HOST_ERR_ARG);
    EXPECT(host_allreduce(mine, all, 1, HOST_INT32, HOST_REPLACE, world) == HOST_ERR_ARG);
    EXPECT(host_reduce_scatter(mine, all, NULL, HOST_INT32, HOST_SUM, world) == HOST_ERR_ARG);
    MUST(host_win_create_over(world, NULL, 0, 8, NULL, &over_world));
    finalizing = 1;
    MUST(host_finalize());
    EXPECT(finalizing == 2 && over_world == NULL && host_rank() == HOST_ERR_STATE);
    EXPECT(host_comm_barrier(world) == HOST_ERR_ARG);
    printf("passed\n");
    return 0;
}
