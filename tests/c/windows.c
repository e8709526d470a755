/* Two windows of different tables side by side; one of them has a layer of the program: a hook that
 * replaces put and fetch_and_op of that window only. */
#include "example.h"

typedef struct {
    int puts;
    int fetches;
    int ended;
    int gaps;
} counts_t;

static int count_put(void *data, const host_rma_layer_t *layer, host_rma_call_t *call) {
    ((counts_t *)data)->puts++;
    ((counts_t *)data)->gaps += (call->datatype & HOST_WITH_GAPS) != 0;
    return host_rma_previous(data, layer, call);
}

static int count_fetch(void *data, const host_rma_layer_t *layer, host_rma_call_t *call) {
    EXPECT(call->datatype == HOST_INT64 && call->op == HOST_SUM && call->count == 1);
    ((counts_t *)data)->fetches++;
    return host_rma_previous(data, layer, call);
}

static int window_made(const host_new_win_t *win, host_rma_table_t *table, void *param) {
    EXPECT(win->size == sizeof *win);
    if (strcmp(win->table_name, "btl") != 0) {
        return HOST_SUCCESS;
    }
    table->data = param;
    table->entries[HOST_RMA_PUT] = count_put;
    table->entries[HOST_RMA_FETCH_AND_OP] = count_fetch;
    return HOST_SUCCESS;
}

static void window_ended(void *data, void *param) {
    if (data == param) {
        ((counts_t *)param)->ended++;
    }
}

static int no_table(const host_new_win_t *win, host_rma_table_t *table, void *param) {
    (void)win, (void)param;
    table->entries[HOST_RMA_GET] = NULL;
    return HOST_SUCCESS;
}

static host_win_t *make(host_comm_t *world, const char *table) {
    host_info_t *info = NULL;
    host_win_t *win = NULL;
    MUST(host_info_create(&info));
    MUST(host_info_set(info, "host_win_table", table));
    MUST(host_win_allocate_over(world, 64, 8, info, &win));
    MUST(host_info_free(&info));
    return win;
}

/* Strided and indexed transfers to the next rank: each rank writes a column, adds to it and reads it back. */
static void use_layouts(host_win_t *win, int rank, int size) {
    const host_block_t blocks[] = {{1, 1}, {4, 2}, {7, 1}};
    host_layout_t row = {.magic = HOST_LAYOUT_MAGIC, .size = sizeof row, .count = 1, .length = 4};
    host_layout_t column = {.magic = HOST_LAYOUT_MAGIC, .size = sizeof column, .count = 4, .length = 1};
    host_layout_t runs = {.magic = HOST_LAYOUT_MAGIC, .size = sizeof runs, .blocks = blocks, .count = 3};
    row.datatype = column.datatype = runs.datatype = HOST_INT64;
    row.stride = 4;
    column.stride = 2;
    int64_t mine[4] = {rank, rank + 1, rank + 2, rank + 3}, got[8] = {0};
    const int next = (rank + 1) % size;
    MUST(host_win_lock_all(win));
    MUST(host_put_layout(mine, &row, next, 0, &column, win));
    MUST(host_win_flush(next, win));
    MUST(host_accumulate_layout(mine, &row, HOST_SUM, next, 0, &column, win));
    MUST(host_win_flush(next, win));
    MUST(host_get_layout(got, &runs, next, 0, &column, win));
    MUST(host_win_flush(next, win));
    EXPECT(got[0] == 0 && got[1] == 2 * rank && got[2] == 0 && got[4] == 2 * (rank + 1));
    EXPECT(got[5] == 2 * (rank + 2) && got[6] == 0 && got[7] == 2 * (rank + 3));

    /* The host refuses overlapping runs, different numbers of elements, two shapes in one layout, a missing
     * magic number, and elements beyond the window. */
    host_layout_t bad = column;
    bad.length = 3;
    EXPECT(host_put_layout(mine, &row, next, 0, &bad, win) == HOST_ERR_WIN);
    bad.length = 1, bad.count = 3;
    EXPECT(host_put_layout(mine, &row, next, 0, &bad, win) == HOST_ERR_WIN);
    bad.blocks = blocks;
    EXPECT(host_get_layout(got, &bad, next, 0, &row, win) == HOST_ERR_ARG);
    bad.magic = 0;
    EXPECT(host_get_layout(got, &bad, next, 0, &row, win) == HOST_ERR_ARG);
    EXPECT(host_put_layout(mine, &row, next, 4, &column, win) == HOST_ERR_WIN);
    EXPECT(host_accumulate_layout(mine, NULL, HOST_SUM, next, 0, &column, win) == HOST_ERR_ARG);
    EXPECT(host_put_layout(NULL, &row, next, 0, &column, win) == HOST_ERR_ARG);
    MUST(host_win_unlock_all(win));

    /* A call with one element takes no layout and no request; a missing layout is not an empty
     * one. */
    host_request_t *request = NULL;
    host_rma_args_t args = host_rma_args(&rank, 1, HOST_INT32, rank, 0);
    EXPECT(host_rma(HOST_RMA_FENCE, &args, win) == HOST_ERR_ARG && host_rma(HOST_RMA_PUT, NULL, win) == HOST_ERR_ARG);
    EXPECT(host_rma_start(HOST_RMA_FETCH_AND_OP, &args, win, &request) == HOST_ERR_ARG && request == NULL);
    args.origin_layout = &row;
    EXPECT(host_rma(HOST_RMA_FETCH_AND_OP, &args, win) == HOST_ERR_ARG);
    EXPECT(host_put_layout(&rank, &row, rank, 0, NULL, win) == HOST_ERR_ARG);
    EXPECT(host_put_layout(&rank, NULL, rank, 0, NULL, win) == HOST_ERR_ARG);
}

/* Puts to the next rank and adds to rank 0. */
static void use(host_win_t *win, int rank, int size) {
    int64_t mine = 100 + rank, one = 1, before = -1, found = 0;
    MUST(host_win_lock_all(win));
    MUST(host_put(&mine, sizeof mine, (rank + 1) % size, 0, win));
    MUST(host_fetch_and_op(&one, &before, HOST_INT64, HOST_SUM, 0, 1, win));
    MUST(host_win_flush_all(win));
    EXPECT(before >= 0 && before < size);
    MUST(host_barrier());
    MUST(host_get(&found, sizeof found, (rank + 1) % size, 0, win));
    MUST(host_win_flush_local((rank + 1) % size, win));
    EXPECT(found == 100 + rank);
    host_request_t *request = NULL;
    MUST(host_raccumulate(&one, 1, HOST_INT64, HOST_SUM, rank, 2, win, &request));
    host_request_t *stale = request, *made_up = (host_request_t *)&request;
    MUST(host_wait(&request));
    EXPECT(request == NULL);
    /* An ended or invalid request is an error without further effects. */
    int done = 0;
    EXPECT(host_wait(&stale) == HOST_ERR_ARG && host_waitall(1, &stale) == HOST_ERR_ARG);
    EXPECT(host_test(&made_up, &done) == HOST_ERR_ARG);
    MUST(host_win_unlock_all(win));
    EXPECT(((int64_t *)host_win_base(win))[2] == 1);
}

/* The previous rank notifies each rank that its bytes have arrived. */
static void notified(host_win_t *win, int rank, int size) {
    const int64_t *mine = host_win_base(win);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    uint64_t arrived = 9;
    EXPECT(host_put_notify(mine, 8, next, 5, 0, win) != HOST_SUCCESS);
    MUST(host_win_notifications(0, &arrived, win));
    EXPECT(arrived == 0);
    EXPECT(host_win_notifications(HOST_WIN_COUNTERS, &arrived, win) == HOST_ERR_WIN);
    EXPECT(host_win_notifications(-1, &arrived, win) == HOST_ERR_ARG);
    EXPECT(host_win_notifications(0, NULL, win) == HOST_ERR_ARG);
    EXPECT(host_win_wait_notified(HOST_WIN_COUNTERS, 0, win) == HOST_ERR_WIN);
    EXPECT(host_win_wait_notified(0, 0, NULL) == HOST_ERR_ARG);
    MUST(host_win_lock_all(win));
    for (int round = 1; round <= 20; round++) {
        int64_t value = 1000 * round + rank;
        MUST(host_put_notify(&value, sizeof value, next, 5 + round % 2, round % 2, win));
        MUST(host_win_wait_notified(round % 2, (uint64_t)(round + 1) / 2, win));
        EXPECT(mine[5 + round % 2] == 1000 * round + last);
        MUST(host_win_flush(next, win));
        MUST(host_barrier());
    }
    EXPECT(host_put_notify(mine, 8, next, 5, HOST_WIN_COUNTERS, win) == HOST_ERR_WIN);
    MUST(host_win_unlock_all(win));
    MUST(host_win_notifications(1, &arrived, win));
    EXPECT(arrived == 10);
    MUST(host_barrier());
}

int main(void) {
    host_comm_t *world = NULL;
    host_win_t *near = NULL, *far = NULL, *none = NULL;
    counts_t counts = {0};
    EXPECT(host_comm_world(&world) == HOST_ERR_STATE);
    MUST(host_init());
    int rank = host_rank(), size = host_size();
    MUST(host_comm_world(&world));

    int hook = host_win_hook_register(window_made, window_ended, &counts);
    MUST(hook);
    far = make(world, "btl");
    near = make(world, "shm");
    use(near, rank, size);
    EXPECT(counts.puts == 0 && counts.fetches == 0);
    use(far, rank, size);
    EXPECT(counts.puts == 1 && counts.fetches == 1);
    notified(near, rank, size);
    notified(far, rank, size);

    /* A layer with a missing function makes the creation fail, and undoes the earlier
     * layers. */
    int holes = host_win_hook_register(no_table, NULL, NULL);
    MUST(holes);
    EXPECT(host_win_allocate_over(world, 8, 8, NULL, &none) == HOST_ERR_JOB && none == NULL);
    EXPECT(strstr(host_error_text(), "is NULL") != NULL);
    MUST(host_win_hook_remove(holes));
    EXPECT(host_win_hook_remove(holes) == HOST_ERR_ARG);

    /* Memory that every rank may address, and memory that is attached later. */
    host_win_t *shared = NULL, *dynamic = NULL;
    int64_t *first = NULL, attached = 5, got = 0;
    uint64_t place = (uint64_t)(uintptr_t)&attached, places[64];
    size_t bytes = 0;
    MUST(host_win_allocate_shared(world, 16, 8, NULL, &shared));
    MUST(host_win_shared_query(shared, 0, (void **)&first, &bytes, NULL));
    EXPECT(bytes == 16 && first[0] == 0);
    EXPECT(host_win_shared_query(shared, size, NULL, NULL, NULL) == HOST_ERR_WIN);
    MUST(host_win_free(&shared));
    MUST(host_win_create_dynamic(world, NULL, &dynamic));
    MUST(host_win_attach(dynamic, &attached, sizeof attached));
    EXPECT(size <= 64);
    MUST(host_allgather(&place, places, 1, HOST_UINT64, world));
    MUST(host_win_lock_all(dynamic));
    MUST(host_get(&got, sizeof got, (rank + 1) % size, places[(rank + 1) % size], dynamic));
    MUST(host_win_unlock_all(dynamic));
    EXPECT(got == 5);
    MUST(host_barrier());
    MUST(host_win_detach(dynamic, &attached));
    EXPECT(host_win_detach(dynamic, &attached) == HOST_ERR_WIN);
    MUST(host_win_free(&dynamic));

    /* A window over the program's own memory. */
    int64_t *own = calloc(4, sizeof *own);
    host_win_t *over_own = NULL;
    EXPECT(own != NULL);
    MUST(host_win_create(own, 4 * sizeof *own, sizeof *own, &over_own));
    MUST(host_win_shared_query(over_own, rank, NULL, &bytes, NULL));
    EXPECT(bytes == 4 * sizeof *own);
    EXPECT(host_comm_node(world, rank) == host_comm_node(world, 0));
    EXPECT(host_comm_node(world, size) == HOST_ERR_ARG);
    MUST(host_win_lock_all(over_own));
    MUST(host_put(&rank, sizeof rank, (rank + 1) % size, 3, over_own));
    /* A window with an open epoch, here or at another rank, is not freed. */
    host_win_t *kept = over_own;
    EXPECT(host_win_free(&over_own) == HOST_ERR_WIN && over_own == kept);
    MUST(host_win_unlock_all(over_own));
    MUST(host_win_free(&over_own));
    EXPECT(over_own == NULL && (int)own[3] == (rank + size - 1) % size);
    free(own);

    /* Layouts work in windows of either table; the entry sees that elements are not
     * contiguous. */
    const char *tables[] = {"shm", "btl"};
    for (int i = 0; i < 2; i++) {
        host_win_t *win = make(world, tables[i]);
        use_layouts(win, rank, size);
        MUST(host_win_free(&win));
        EXPECT(counts.gaps == i);
    }

    /* Header and library have the same version. */
    EXPECT(strcmp(host_library_version(), HOST_VERSION) == 0);

    /* A pointer to no window is an error. */
    host_win_t *stale = near;
    MUST(host_win_free(&near));
    EXPECT(near == NULL && host_win_free(&near) == HOST_ERR_ARG);
    EXPECT(host_win_fence(stale) == HOST_ERR_ARG && host_win_sync((host_win_t *)8) == HOST_ERR_ARG);
    EXPECT(host_put(NULL, 8, 0, 0, far) == HOST_ERR_ARG);
    EXPECT(host_accumulate(&got, 1, 99, HOST_SUM, 0, 0, far) == HOST_ERR_ARG);
    MUST(host_win_hook_remove(hook));
    MUST(host_win_free(&far));
    /* The end of the hook ran for the freed window, and for a window that could not be made if it
     * had that table. */
    EXPECT(counts.ended >= 1);
    MUST(host_finalize());
    printf("passed\n");
    return 0;
}
