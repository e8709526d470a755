/* Two layers replace every function of a window, count the calls, and call the function below. After
 * each call of the program, exactly the entry of that call was called in each layer, and its work was
 * done. The test runs for windows of each table. */
#include "example.h"

#define ITEMS 8

typedef struct {
    int calls[HOST_RMA_ENTRIES];
} counts_t;

static counts_t upper, lower;
/* The counts before a call. */
static counts_t before;
/* The lock that the last call of an entry used. */
static int lock;
static int rank, size, next, last;

static int count(void *data, const host_rma_layer_t *layer, host_rma_call_t *call) {
    EXPECT(call->size == sizeof *call && call->entry < HOST_RMA_ENTRIES);
    ((counts_t *)data)->calls[call->entry]++;
    lock = call->lock;
    return host_rma_previous(data, layer, call);
}

static int made(const host_new_win_t *win, host_rma_table_t *table, void *param) {
    EXPECT(win->rank == rank && win->ranks == size);
    table->data = param;
    for (size_t entry = 0; entry < HOST_RMA_ENTRIES; entry++) {
        EXPECT(table->entries[entry] != NULL);
        table->entries[entry] = count;
    }
    return HOST_SUCCESS;
}

/* The entry was called at least once since `before`, equally often in both layers, and no
 * other entry was. */
static int called(size_t entry) {
    for (size_t other = 0; other < HOST_RMA_ENTRIES; other++) {
        EXPECT(upper.calls[other] == lower.calls[other]);
        if (other != entry && upper.calls[other] != before.calls[other]) {
            fprintf(stderr, "entry %zu was called instead of %zu\n", other, entry);
            exit(1);
        }
    }
    return upper.calls[entry] - before.calls[entry];
}

/* A call that reaches one entry, once. */
#define ONCE(entry, call)                \
    do {                                 \
        before = upper;                  \
        MUST(call);                      \
        EXPECT(called(HOST_RMA_##entry) == 1); \
    } while (0)

static void completed(void *data, int status) { *(volatile int *)data = status == 0 ? 1 : -1; }

static host_win_t *make(host_comm_t *world, const char *table, int64_t *memory) {
    host_info_t *info = NULL;
    host_win_t *win = NULL;
    MUST(host_info_create(&info));
    MUST(host_info_set(info, "host_win_table", table));
    if (memory) {
        MUST(host_win_create_over(world, memory, ITEMS * sizeof *memory, sizeof *memory, info, &win));
    } else {
        MUST(host_win_allocate_over(world, ITEMS * sizeof *memory, sizeof *memory, info, &win));
    }
    MUST(host_info_free(&info));
    return win;
}

/* Makes each transfer to the next rank, under a lock of that rank. */
static void transfers(host_win_t *win) {
    int64_t one = 1, value = 40 + rank, found = -1, wanted = 40 + rank;
    host_request_t *request = NULL;
    ONCE(LOCK, host_win_lock(HOST_LOCK_EXCLUSIVE, next, win));
    ONCE(PUT, host_put(&value, sizeof value, next, 0, win));
    ONCE(FLUSH, host_win_flush(next, win));
    ONCE(GET, host_get(&found, sizeof found, next, 0, win));
    ONCE(FLUSH_LOCAL, host_win_flush_local(next, win));
    EXPECT(found == value);
    ONCE(ACCUMULATE, host_accumulate(&one, 1, HOST_INT64, HOST_SUM, next, 1, win));
    ONCE(FLUSH_LOCAL_ALL, host_win_flush_local_all(win));
    ONCE(GET_ACCUMULATE, host_get_accumulate(&one, &found, 1, HOST_INT64, HOST_SUM, next, 1, win));
    ONCE(FLUSH_ALL, host_win_flush_all(win));
    EXPECT(found == 1);
    ONCE(FETCH_AND_OP, host_fetch_and_op(&one, &found, HOST_INT64, HOST_SUM, next, 1, win));
    MUST(host_win_flush(next, win));
    EXPECT(found == 2);
    ONCE(COMPARE_AND_SWAP, host_compare_and_swap(&one, &wanted, &found, HOST_INT64, next, 0, win));
    MUST(host_win_flush(next, win));
    EXPECT(found == value);

    ONCE(RPUT, host_rput(&value, sizeof value, next, 2, win, &request));
    MUST(host_wait(&request));
    MUST(host_win_flush(next, win));
    ONCE(RGET, host_rget(&found, sizeof found, next, 2, win, &request));
    MUST(host_wait(&request));
    EXPECT(found == value);
    ONCE(RACCUMULATE, host_raccumulate(&one, 1, HOST_INT64, HOST_SUM, next, 2, win, &request));
    volatile int over = 0;
    MUST(host_request_detach(&request, completed, (void *)&over));
    EXPECT(request == NULL);
    while (over == 0) {
        MUST(host_progress());
    }
    EXPECT(over == 1);
    MUST(host_win_flush(next, win));
    ONCE(RGET_ACCUMULATE,
         host_rget_accumulate(NULL, &found, 1, HOST_INT64, HOST_NO_OP, next, 2, win, &request));
    MUST(host_wait(&request));
    EXPECT(found == value + 1);
    ONCE(UNLOCK, host_win_unlock(next, win));
    ONCE(LOCK, host_win_lock_with(HOST_LOCK_SHARED, next, 0, win));
    ONCE(UNLOCK, host_win_unlock(next, win));
    ONCE(LOCK_ALL, host_win_lock_all(win));
    ONCE(SYNC, host_win_sync(win));
    ONCE(UNLOCK_ALL, host_win_unlock_all(win));
    ONCE(LOCK_ALL, host_win_lock_all_with(0, win));
    ONCE(UNLOCK_ALL, host_win_unlock_all(win));
    EXPECT(lock == HOST_LOCK_SHARED);
    MUST(host_barrier());
    /* No rank has a lock now: the epoch takes none, and its end releases none. */
    before = upper;
    MUST(host_win_lock_all_with(HOST_MODE_NOCHECK, win));
    EXPECT(called(HOST_RMA_LOCK_ALL) == 0);
    ONCE(UNLOCK_ALL, host_win_unlock_all(win));
    EXPECT(lock < 0);
    const volatile int64_t *mine = host_win_base(win);
    EXPECT(mine[0] == 1 && mine[1] == 3 && mine[2] == 41 + last);
}

/* Queries of a window, and hints that change. */
static void queries(host_win_t *win, const char *table) {
    host_info_t *info = NULL, *wrong = NULL;
    char text[32], *cut = text;
    ptrdiff_t length = 0;
    void *base = NULL;
    size_t bytes = 0;
    uint32_t unit = 0;
    ONCE(GET_INFO, host_win_get_info(win, &info));
    MUST(host_info_get(info, "host_win_table", sizeof text, text, &length));
    EXPECT(strcmp(text, table) == 0 && length == (ptrdiff_t)strlen(table));
    MUST(host_info_get(info, "host_win_table", 3, cut, &length));
    EXPECT(strlen(cut) == 2 && strncmp(cut, table, 2) == 0 && length == (ptrdiff_t)strlen(table));
    MUST(host_info_get(info, "no_such_key", 0, NULL, &length));
    EXPECT(length == -1);
    MUST(host_info_free(&info));
    EXPECT(host_info_get(info, "no_locks", sizeof text, text, NULL) == HOST_ERR_ARG);

    MUST(host_info_create(&info));
    MUST(host_info_set(info, "no_locks", "true"));
    ONCE(SET_INFO, host_win_set_info(win, info));
    EXPECT(host_win_lock_all(win) == HOST_ERR_WIN);
    MUST(host_info_set(info, "no_locks", "false"));
    ONCE(SET_INFO, host_win_set_info(win, info));
    MUST(host_win_get_info(win, &wrong));
    MUST(host_info_set(wrong, "host_win_table", strcmp(table, "btl") == 0 ? "shm" : "btl"));
    EXPECT(host_win_set_info(win, wrong) == HOST_ERR_WIN);
    EXPECT(strstr(host_error_text(), "host_win_table is fixed") != NULL);
    EXPECT(host_info_set(info, "accumulate_ops", "some") == HOST_ERR_ARG);
    MUST(host_info_free(&wrong));
    MUST(host_info_free(&info));

    before = upper;
    int mapped = strcmp(table, "shm") == 0 || strcmp(table, "mixed") == 0;
    /* A query of another rank's memory that is not mapped here is refused. */
    int found = host_win_shared_query(win, next, &base, &bytes, &unit);
    EXPECT(found == (mapped ? HOST_SUCCESS : HOST_ERR_WIN) || next == rank);
    EXPECT(called(HOST_RMA_SHARED_QUERY) == 1);
    if (mapped) {
        EXPECT(base != NULL && bytes == ITEMS * sizeof(int64_t) && unit == sizeof(int64_t));
        ONCE(SHARED_QUERY, host_win_shared_query(win, -1, &base, NULL, NULL));
    }
}

/* Refused calls return a code, and host_error_text has the reason. */
static void errors(host_comm_t *world) {
    int64_t value = 0;
    host_win_t *win = NULL;
    host_request_t *request = NULL;
    MUST(host_win_allocate_over(world, 8, 8, NULL, &win));
    EXPECT(host_put(&value, sizeof value, next, 0, win) == HOST_ERR_WIN);
    EXPECT(strstr(host_error_text(), "outside an access epoch") != NULL);
    EXPECT(host_put(&value, sizeof value, -1, 0, win) == HOST_ERR_ARG);
    EXPECT(host_rput(&value, sizeof value, next, 0, win, &request) == HOST_ERR_WIN && request == NULL);
    EXPECT(host_accumulate(&value, 1, HOST_INT64, HOST_SUM, next, 0, win) == HOST_ERR_WIN);
    EXPECT(host_win_unlock_all(win) == HOST_ERR_WIN && host_win_wait(win) == HOST_ERR_WIN);
    MUST(host_win_free(&win));
}

static void attached(host_comm_t *world) {
    int64_t memory[ITEMS] = {0};
    host_win_t *win = NULL;
    MUST(host_win_create_dynamic(world, NULL, &win));
    ONCE(ATTACH, host_win_attach(win, memory, sizeof memory));
    ONCE(DETACH, host_win_detach(win, memory));
    EXPECT(host_win_detach(win, memory) == HOST_ERR_WIN);
    MUST(host_win_free(&win));
}

/* Fences, and epochs of the next and the last rank. */
static void active(host_win_t *win) {
    int64_t value = 70 + rank;
    const volatile int64_t *mine = host_win_base(win);
    ONCE(FENCE, host_win_fence(win));
    MUST(host_put(&value, sizeof value, next, 3, win));
    ONCE(FENCE, host_win_fence_with(0, win));
    EXPECT(mine[3] == 70 + last);
    ONCE(FENCE, host_win_fence_end(win));
    for (int way = 0; way < 2; way++) {
        ONCE(POST, host_win_post(&last, 1, 0, win));
        ONCE(START, host_win_start(&next, 1, 0, win));
        MUST(host_put(&value, sizeof value, next, 4 + way, win));
        ONCE(COMPLETE, host_win_complete(win));
        if (way == 0) {
            ONCE(WAIT, host_win_wait(win));
        } else {
            int done = 0, asked = 0;
            before = upper;
            for (; !done; asked++) {
                MUST(host_win_test(&done, win));
            }
            EXPECT(called(HOST_RMA_TEST) == asked);
        }
        EXPECT(mine[4 + way] == 70 + last);
    }
}

int main(void) {
    static const char *const tables[] = {"shm", "mixed", "btl"};
    host_comm_t *world = NULL;
    int64_t memory[ITEMS];
    MUST(host_init());
    MUST(host_comm_world(&world));
    rank = host_rank(), size = host_size();
    next = (rank + 1) % size, last = (rank + size - 1) % size;
    int hooks[2] = {host_win_hook_register(made, NULL, &upper), host_win_hook_register(made, NULL, &lower)};
    MUST(hooks[0]);
    MUST(hooks[1]);
    for (size_t table = 0; table < sizeof tables / sizeof *tables; table++) {
        int given = strcmp(tables[table], "btl") == 0;
        memset(memory, 0, sizeof memory);
        host_win_t *win = make(world, tables[table], given ? memory : NULL);
        transfers(win);
        MUST(host_barrier());
        active(win);
        queries(win, tables[table]);
        ONCE(FREE, host_win_free(&win));
    }
    attached(world);
    errors(world);
    for (size_t entry = 0; entry < HOST_RMA_ENTRIES; entry++) {
        EXPECT(upper.calls[entry] > 0);
    }
    /* Each hook counts: ranks with different numbers of hooks make no window. */
    host_win_t *none = NULL;
    if (rank == 0) {
        MUST(host_win_hook_remove(hooks[1]));
    }
    EXPECT(host_win_allocate(8, 8, &none) == HOST_ERR_JOB && none == NULL);
    EXPECT(strstr(host_error_text(), "window hooks are registered") != NULL);
    if (rank == 0) {
        MUST(hooks[1] = host_win_hook_register(made, NULL, &lower));
    }
    MUST(host_win_hook_remove(hooks[0]));
    MUST(host_win_hook_remove(hooks[1]));
    MUST(host_finalize());
    printf("passed\n");
    return 0;
}
