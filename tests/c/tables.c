/* Tables of programs that were compiled with this host's header, with an older one (OLDER) and with a newer
 * one (NEWER). Entries that both sides know work, the host refuses unknown entries by name, and it neither
 * reads nor writes beyond a table's size. `c_examples.rs` makes the older and the newer header. */
#include "example.h"

#define LAYER 50
/* The numbers of collectives and functions that this host knows. */
#define COLLECTIVES 13
#define FUNCTIONS 31

#if defined(OLDER)
_Static_assert(HOST_COLL_ENTRIES < COLLECTIVES && HOST_RMA_ENTRIES < FUNCTIONS, "an older header");
_Static_assert(sizeof(host_coll_table_t) == 24 + 5 * 32 && sizeof(host_rma_table_t) == 24 + 4 * 8, "");
_Static_assert(sizeof(crt_hooks_t) == 48 && sizeof(host_coll_args_t) == 64, "");
#elif defined(NEWER)
_Static_assert(HOST_COLL_ENTRIES > COLLECTIVES && HOST_RMA_ENTRIES > FUNCTIONS, "a newer header");
_Static_assert(sizeof(host_coll_table_t) > 2072 && sizeof(host_rma_table_t) > 536, "");
_Static_assert(sizeof(crt_hooks_t) == 64 && sizeof(host_coll_args_t) == 104, "");
_Static_assert(sizeof(host_overrides_t) == 88, "");
#else
_Static_assert(HOST_COLL_ENTRIES == COLLECTIVES && HOST_RMA_ENTRIES == FUNCTIONS, "this host's header");
_Static_assert(sizeof(host_coll_table_t) == 2072 && sizeof(host_rma_table_t) == 536, "");
_Static_assert(sizeof(crt_hooks_t) == 56 && sizeof(host_coll_args_t) == 96, "");
_Static_assert(sizeof(host_overrides_t) == 80 && sizeof(host_rma_call_t) == 128, "");
_Static_assert(sizeof(host_new_win_t) == 48, "");
#endif

/* These offsets are the same in every version. */
_Static_assert(sizeof(host_coll_entry_t) == 32 && offsetof(host_coll_entry_t, blocking) == 0, "");
_Static_assert(offsetof(host_coll_entry_t, nonblocking) == 8 && offsetof(host_coll_entry_t, flags) == 16, "");
#define BEGINS(type) \
    _Static_assert(offsetof(type, magic) == 0 && offsetof(type, size) == 8 && _Alignof(type) == 8, #type)
BEGINS(host_coll_table_t);
BEGINS(host_coll_args_t);
BEGINS(host_rma_table_t);
BEGINS(crt_hooks_t);
BEGINS(host_overrides_t);
_Static_assert(offsetof(host_coll_table_t, data) == 16 && offsetof(host_coll_table_t, entries) == 24, "");
_Static_assert(offsetof(host_rma_table_t, data) == 16 && offsetof(host_rma_table_t, entries) == 24, "");
_Static_assert(offsetof(host_coll_args_t, send) == 16 && offsetof(host_coll_args_t, recv) == 24, "");
_Static_assert(offsetof(host_coll_args_t, count) == 32 && offsetof(host_coll_args_t, counts) == 40, "");
_Static_assert(offsetof(host_coll_args_t, datatype) == 48 && offsetof(host_coll_args_t, op) == 52, "");
_Static_assert(offsetof(host_coll_args_t, root) == 56 && offsetof(host_coll_args_t, reserved) == 60, "");
_Static_assert(offsetof(crt_hooks_t, claims) == 16 && offsetof(crt_hooks_t, reserved) == 20, "");
_Static_assert(offsetof(crt_hooks_t, running) == 24 && offsetof(crt_hooks_t, suspend) == 32, "");
_Static_assert(offsetof(crt_hooks_t, resume) == 40, "");
_Static_assert(offsetof(host_overrides_t, copy_from_hmem_iov) == 16, "");
_Static_assert(offsetof(host_overrides_t, copy_to_hmem_iov) == 24, "");
#ifndef OLDER
_Static_assert(offsetof(host_overrides_t, copy_from_hmem_strided) == 32, "");
_Static_assert(offsetof(host_overrides_t, copy_to_hmem_strided) == 40, "");
_Static_assert(offsetof(host_overrides_t, copy_from_hmem_async) == 48, "");
_Static_assert(offsetof(host_overrides_t, copy_to_hmem_async) == 56, "");
_Static_assert(offsetof(host_overrides_t, query_event) == 64, "");
_Static_assert(offsetof(host_overrides_t, stream) == 72, "");
#endif
_Static_assert(offsetof(host_rma_call_t, entry) == 8 && offsetof(host_rma_call_t, group_count) == 88, "");
_Static_assert(offsetof(host_rma_call_t, base) == 96 && offsetof(host_rma_call_t, info) == 120, "");
_Static_assert(offsetof(host_new_win_t, table_name) == 24 && offsetof(host_new_win_t, bytes) == 40, "");

/* A call that is refused with this code and these words in the message. */
#define REFUSED(code, words, call)                      \
    do {                                                \
        EXPECT((call) == (code));                       \
        EXPECT(strstr(host_error_text(), words) != NULL); \
    } while (0)

static int calls;

/* Passes its own arguments on, which have the size that this program knows. */
static int count(void *data, const host_coll_layer_t *layer, host_comm_t *comm, int collective,
                 const host_coll_args_t *args) {
    host_coll_args_t mine = {.magic = 0};
    memcpy(&mine, args, args->size < sizeof mine ? args->size : sizeof mine);
    mine.size = sizeof mine;
    mine.magic++;
    REFUSED(HOST_ERR_ARG, "magic number of the host_coll_args_t",
            host_coll_previous(data, layer, comm, collective, &mine));
    mine.magic--;
    /* The first version had 64 bytes. */
    mine.size = 56;
    REFUSED(HOST_ERR_ARG, "size of the host_coll_args_t",
            host_coll_previous(data, layer, comm, collective, &mine));
    mine.size = sizeof mine;
    mine.reserved = 1;
    REFUSED(HOST_ERR_ARG, "reserved", host_coll_previous(data, layer, comm, collective, &mine));
    mine.reserved = 0;
#ifdef NEWER
    mine.later = 1;
    REFUSED(HOST_ERR_ARG, "byte 96 of the host_coll_args_t",
            host_coll_previous(data, layer, comm, collective, &mine));
    mine.later = 0;
#endif
    calls++;
    return host_coll_previous(data, layer, comm, collective, &mine);
}

static int count_start(void *data, const host_coll_layer_t *layer, host_comm_t *comm, int collective,
                       const host_coll_args_t *args, host_coll_request_t **request) {
    calls++;
    return host_coll_previous_start(data, layer, comm, collective, args, request);
}

static void no_headers(host_comm_t *comm, host_coll_table_t table) {
    const size_t wrong[] = {0, 8, 23, sizeof table - 1, sizeof table - 8, (size_t)-1, (size_t)-8};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        table.size = wrong[i];
        REFUSED(HOST_ERR_ARG, "size of the host_coll_table_t", host_comm_override(comm, &table));
        REFUSED(HOST_ERR_ARG, "size of the host_coll_table_t", host_comm_get_table(comm, &table));
    }
    table.size = sizeof table, table.magic = 0;
    REFUSED(HOST_ERR_ARG, "magic number of the host_coll_table_t", host_comm_override(comm, &table));
    REFUSED(HOST_ERR_ARG, "magic number of the host_coll_table_t", host_comm_get_table(comm, &table));
    REFUSED(HOST_ERR_ARG, "host_coll_table_t is NULL", host_comm_override(comm, NULL));
    REFUSED(HOST_ERR_ARG, "host_coll_table_t is NULL", host_comm_get_table(comm, NULL));
}

static int comm_made(host_comm_t *comm, void *param) {
    struct {
        host_coll_table_t table;
        char after[4096];
    } own;
    host_coll_entry_t *entries = own.table.entries;
    memset(&own, 0x55, sizeof own);
    own.table.magic = HOST_COLL_TABLE_MAGIC, own.table.size = sizeof own.table;
    MUST(host_comm_get_table(comm, &own.table));
    EXPECT(own.table.size == sizeof own.table && own.table.data == NULL);
    for (size_t i = 0; i < sizeof own.after; i++) {
        EXPECT(own.after[i] == 0x55);
    }
    for (size_t i = 0; i < HOST_COLL_ROOM; i++) {
        EXPECT((entries[i].nonblocking == host_coll_previous_start) == (i < COLLECTIVES));
        EXPECT(i < COLLECTIVES || entries[i].blocking == NULL);
        EXPECT(entries[i].flags == 0 && entries[i].reserved[0] == 0);
    }
    no_headers(comm, own.table);
    entries[HOST_COLL_ALLREDUCE].blocking = count;
    entries[HOST_COLL_ALLREDUCE].nonblocking = NULL;
    REFUSED(HOST_ERR_ARG, "no nonblocking allreduce", host_comm_override(comm, &own.table));
    entries[HOST_COLL_ALLREDUCE].nonblocking = count_start;
    entries[HOST_COLL_BCAST].reserved[0] = 1;
    REFUSED(HOST_ERR_ARG, "room of bcast", host_comm_override(comm, &own.table));
    entries[HOST_COLL_BCAST].reserved[0] = 0;
    entries[HOST_COLL_BCAST].flags = 2;
    REFUSED(HOST_ERR_ARG, "flags of bcast", host_comm_override(comm, &own.table));
    /* An entry without functions counts as unchanged. */
    memset(&entries[HOST_COLL_BCAST], 0, sizeof *entries);
#ifndef OLDER
    entries[COLLECTIVES].nonblocking = count_start;
    REFUSED(HOST_ERR_ARG, "entry 13 is set", host_comm_override(comm, &own.table));
    entries[COLLECTIVES].nonblocking = NULL;
    entries[63].blocking = count;
    REFUSED(HOST_ERR_ARG, "entry 63 is set", host_comm_override(comm, &own.table));
    entries[63].blocking = NULL;
#endif
#ifdef NEWER
    entries[HOST_COLL_ROOM - 1].blocking = count;
    REFUSED(HOST_ERR_ARG, "of the host_coll_table_t is set, and this host knows the first 2072",
            host_comm_override(comm, &own.table));
    entries[HOST_COLL_ROOM - 1].blocking = NULL;
#endif
    own.table.data = param;
    return host_comm_override(comm, &own.table);
}

static int comm_ended(host_comm_t *comm, void *param) {
    (void)param;
    return host_comm_restore(comm);
}

static void collectives(host_comm_t *world) {
    host_comm_t *comm = NULL;
    host_coll_request_t *request = NULL;
    int32_t one = 1, sum = 0;
    MUST(host_comm_hooks_register(LAYER, comm_made, comm_ended, NULL));
    MUST(host_comm_dup(world, &comm));
    int rank = host_comm_rank(comm), size = host_comm_size(comm);
    MUST(host_allreduce(&one, &sum, 1, HOST_INT32, HOST_SUM, comm));
    EXPECT(sum == size && calls == 1);
    MUST(host_iallreduce(&one, &sum, 1, HOST_INT32, HOST_SUM, comm, &request));
    MUST(host_coll_wait(&request));
    EXPECT(sum == size && calls == 2);
    /* A collective beyond the table's size, and a collective that the table leaves
     * unchanged. */
    MUST(host_scan(&one, &sum, 1, HOST_INT32, HOST_SUM, comm));
    EXPECT(sum == rank + 1);
    MUST(host_iexscan(&one, &sum, 1, HOST_INT32, HOST_SUM, comm, &request));
    MUST(host_coll_wait(&request));
    EXPECT(rank == 0 || sum == rank);
    sum = rank == 0 ? 9 : 0;
    MUST(host_bcast(&sum, 1, HOST_INT32, 0, comm));
    EXPECT(sum == 9);
    MUST(host_comm_barrier(comm));
    EXPECT(calls == 2);
    MUST(host_comm_free(&comm));
    MUST(host_comm_hooks_unregister(LAYER));
}

static int put_calls;

static int count_put(void *data, const host_rma_layer_t *layer, host_rma_call_t *call) {
    put_calls++;
    REFUSED(HOST_ERR_ARG, "layer is NULL", host_rma_previous(data, NULL, call));
    REFUSED(HOST_ERR_ARG, "is NULL", host_rma_previous(data, layer, NULL));
    return host_rma_previous(data, layer, call);
}

/* The changes that a hook makes to its table. */
enum { SETS, WRITES_ALL, CHANGES_MAGIC, CHANGES_SIZE, WRITES_TOO_MUCH, LEAVES_A_HOLE, SETS_LATER, WAYS };

static int window_made(const host_new_win_t *win, host_rma_table_t *table, void *param) {
    host_rma_table_t mine = {.magic = 0};
    EXPECT(win->size >= sizeof *win && table->magic == HOST_RMA_TABLE_MAGIC && table->size == 536);
    for (size_t i = 0; i < HOST_RMA_ROOM && i < 64; i++) {
        EXPECT(table->entries[i] == (i < FUNCTIONS ? host_rma_previous : NULL));
    }
    table->entries[HOST_RMA_PUT] = count_put;
    switch (*(int *)param) {
    case WRITES_ALL:
        memcpy(&mine, table, table->size < sizeof mine ? table->size : sizeof mine);
        mine.size = table->size < sizeof mine ? table->size : sizeof mine;
        memcpy(table, &mine, mine.size);
        break;
    case CHANGES_MAGIC:
        table->magic = HOST_COLL_TABLE_MAGIC;
        break;
    case CHANGES_SIZE:
        table->size = 30;
        break;
    case WRITES_TOO_MUCH:
        table->size += 8;
        break;
    case LEAVES_A_HOLE:
        table->entries[HOST_RMA_GET] = NULL;
        break;
#ifndef OLDER
    case SETS_LATER:
        table->entries[FUNCTIONS] = count_put;
        break;
#endif
    }
    return HOST_SUCCESS;
}

static void windows(void) {
    static const char *const words[WAYS] = {
        [CHANGES_MAGIC] = "magic number of the host_rma_table_t",
        [CHANGES_SIZE] = "size of the host_rma_table_t is 30",
        [WRITES_TOO_MUCH] = "544 bytes were written over the host_rma_table_t",
        [LEAVES_A_HOLE] = "entry 1 is NULL",
#ifndef OLDER
        [SETS_LATER] = "entry 31 is set, and this host knows 31",
#endif
    };
    int rank = host_rank(), next = (rank + 1) % host_size();
    for (int way = 0; way < WAYS; way++) {
        host_win_t *win = NULL;
        int hook = host_win_hook_register(window_made, NULL, &way), before = put_calls;
        MUST(hook);
        if (words[way]) {
            REFUSED(HOST_ERR_JOB, words[way], host_win_allocate(64, 8, &win));
            EXPECT(win == NULL);
        } else {
            int64_t out = 100 * way + rank, back = -1;
            MUST(host_win_allocate(64, 8, &win));
            MUST(host_win_lock_all(win));
            MUST(host_put(&out, sizeof out, next, 0, win));
            MUST(host_win_flush(next, win));
            MUST(host_get(&back, sizeof back, next, 0, win));
            MUST(host_win_unlock_all(win));
            EXPECT(back == out && put_calls == before + 1);
            MUST(host_win_free(&win));
        }
        MUST(host_win_hook_remove(hook));
    }
}

static void *running(void) { return NULL; }
static void task(void *handle) { (void)handle; }

static void hooks_of_a_runtime(void) {
    struct {
        crt_hooks_t hooks;
        void (*after)(void *);
    } own = {.hooks = {.magic = CRT_HOOKS_MAGIC,
                       .size = sizeof own.hooks,
                       .claims = CRT_CAN_SUSPEND,
                       .running = running,
                       .suspend = task,
                       .resume = task},
             .after = task};
    MUST(crt_set_hooks(&own.hooks));
    MUST(crt_set_hooks(NULL));
    /* The host does not read memory behind a table as a function of the table. */
    own.hooks.claims = CRT_CAN_YIELD;
    REFUSED(HOST_ERR_HOOKS, "no yield function", crt_set_hooks(&own.hooks));
    own.hooks.claims = CRT_CAN_SUSPEND;
    own.hooks.size = offsetof(crt_hooks_t, resume);
    REFUSED(HOST_ERR_HOOKS, "no resume function", crt_set_hooks(&own.hooks));
    own.hooks.size = 20;
    REFUSED(HOST_ERR_ARG, "size of the crt_hooks_t is 20", crt_set_hooks(&own.hooks));
    own.hooks.size = sizeof own.hooks;
    own.hooks.reserved = 1;
    REFUSED(HOST_ERR_ARG, "reserved", crt_set_hooks(&own.hooks));
    own.hooks.reserved = 0;
    own.hooks.magic = sizeof own.hooks;
    REFUSED(HOST_ERR_ARG, "magic number of the crt_hooks_t", crt_set_hooks(&own.hooks));
    own.hooks.magic = CRT_HOOKS_MAGIC;
#ifdef NEWER
    own.hooks.later = running;
    REFUSED(HOST_ERR_ARG, "byte 56 of the crt_hooks_t is set", crt_set_hooks(&own.hooks));
#endif
}

static void overrides(void) {
    host_overrides_t none = {.magic = 0, .size = sizeof none};
    REFUSED(HOST_ERR_ARG, "magic number of the host_overrides_t", host_set_overrides(&none));
    none.magic = HOST_OVERRIDES_MAGIC, none.size = 12;
    REFUSED(HOST_ERR_ARG, "size of the host_overrides_t is 12", host_set_overrides(&none));
#ifdef NEWER
    none.size = sizeof none, none.later = running;
    REFUSED(HOST_ERR_ARG, "byte 80 of the host_overrides_t is set", host_set_overrides(&none));
#endif
}

int main(void) {
    host_comm_t *world = NULL;
    hooks_of_a_runtime();
    MUST(host_init());
    MUST(host_comm_world(&world));
    collectives(world);
    windows();
    overrides();
    MUST(host_finalize());
    printf("passed\n");
    return 0;
}
