/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of host.c that uses a module: each entry of its table on each target.
 */

/* The size of each process's memory, in two halves by origin, and of the local buffers, in
 * bytes. */
#define AREA 4096

/* A process's description of its memory for the other process. */
struct offer {
    uint64_t base;
    uint64_t handle[32]; /* 256 bytes, the maximum size of a handle */
};

/* A target, from this process's side. */
struct target {
    btl_endpoint *endpoint;
    uint64_t address; /* of the half that this process may change */
    const btl_handle *handle;
    const char *name;
};

/* An outstanding operation. */
struct pending {
    int calls;
    int32_t status;
    btl_module *module;
    btl_endpoint *endpoint;
    void *local_address;
    btl_handle *local_handle;
    void *data;
};

static unsigned char window[2 * AREA] __attribute__((aligned(4096)));
static unsigned char scratch[AREA] __attribute__((aligned(4096)));
static btl_handle *scratch_handle;

static void landed(btl_module *module, btl_endpoint *endpoint, void *local_address,
                   btl_handle *local_handle, void *context, void *data, int32_t status)
{
    struct pending *pending = context;
    pending->calls++;
    pending->status = status;
    pending->module = module;
    pending->endpoint = endpoint;
    pending->local_address = local_address;
    pending->local_handle = local_handle;
    pending->data = data;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void progress(void)
{
    if (host.progress(host.component) == 0)
        sched_yield();
}

/* Repeats `call` until the module has room; `status` is its last result. */
#define ISSUE(status, call)                                                                \
    do {                                                                                   \
        status = (call);                                                                   \
        if (status == BTL_TEMP_OUT_OF_RESOURCE || status == BTL_OUT_OF_RESOURCE)           \
            progress();                                                                    \
    } while (status == BTL_TEMP_OUT_OF_RESOURCE || status == BTL_OUT_OF_RESOURCE)

/* Waits for an operation that was issued with `landed` and &pending; returns its final
 * status. */
static int32_t finish(struct pending *pending, btl_status issued)
{
    if (issued == BTL_COMPLETED)
        return pending->calls == 0 ? BTL_SUCCESS : BTL_ERROR;
    if (issued != BTL_SUCCESS)
        return issued;
    while (pending->calls == 0)
        progress();
    return pending->calls == 1 ? pending->status : BTL_ERROR;
}

/* ---- Puts and gets -------------------------------------------------------------------------- */

static btl_status put(btl_module *module, const struct target *target, void *from, uint64_t offset,
                      size_t size)
{
    struct pending pending = {0};
    btl_status status;
    ISSUE(status, module->vtable->put(module, target->endpoint, from, target->address + offset,
                                      scratch_handle, target->handle, size, 0, BTL_NO_ORDER,
                                      landed, &pending, NULL));
    return finish(&pending, status);
}

static btl_status get(btl_module *module, const struct target *target, void *to, uint64_t offset,
                      size_t size)
{
    struct pending pending = {0};
    btl_status status;
    ISSUE(status, module->vtable->get(module, target->endpoint, to, target->address + offset,
                                      scratch_handle, target->handle, size, 0, BTL_NO_ORDER,
                                      landed, &pending, NULL));
    return finish(&pending, status);
}

static void check_put_and_get(btl_module *module, const struct target *target)
{
    static const size_t sizes[] = {0, 7, 1000};
    const btl_module_vtable *vtable = module->vtable;
    const btl_attributes *attributes = module->attributes;
    struct pending pending = {0};
    btl_status status;
    char token;

    for (size_t at = 0; at < sizeof sizes / sizeof *sizes; at++) {
        size_t size = sizes[at];
        for (size_t byte = 0; byte < size; byte++)
            scratch[byte] = (unsigned char)(byte * 7 + size + host.rank);
        expect(put(module, target, scratch, 8, size) == BTL_SUCCESS, "put of %zu bytes to %s", size,
               target->name);
        memset(scratch + 2048, 0xee, size + 1);
        expect(get(module, target, scratch + 2048, 8, size) == BTL_SUCCESS,
               "get of %zu bytes from %s", size, target->name);
        expect(memcmp(scratch, scratch + 2048, size) == 0 && scratch[2048 + size] == 0xee,
               "%zu bytes come back from %s as they went, and no more", size, target->name);
    }

    /* The callback gets the arguments of the call. */
    ISSUE(status, vtable->put(module, target->endpoint, scratch, target->address, scratch_handle,
                              target->handle, 8, 0, BTL_NO_ORDER, landed, &pending, &token));
    expect(finish(&pending, status) == BTL_SUCCESS, "put with data to %s", target->name);
    expect(status == BTL_COMPLETED ||
               (pending.module == module && pending.endpoint == target->endpoint &&
                pending.local_address == scratch && pending.local_handle == scratch_handle &&
                pending.data == &token),
           "the callback gets the arguments of its put to %s", target->name);

    /* Without a callback, a flush shows the completion; up to the threshold, no handle is needed. */
    for (int endpoint = 0; endpoint < 2; endpoint++) {
        uint64_t value = 0x0123456789abcdef + (uint64_t)endpoint, back = 0;
        bool bare = attributes->put_local_registration_threshold >= sizeof value;
        memcpy(scratch, &value, sizeof value);
        ISSUE(status, vtable->put(module, target->endpoint, bare ? &value : (void *)scratch,
                                  target->address, bare ? NULL : scratch_handle, target->handle,
                                  sizeof value, 0, BTL_NO_ORDER, NULL, NULL, NULL));
        expect(status >= 0, "put without callback to %s returned %d", target->name, (int)status);
        expect(vtable->flush(module, endpoint ? target->endpoint : NULL) == BTL_SUCCESS,
               "flush of %s", endpoint ? target->name : "everything");
        expect(get(module, target, scratch + 2048, 0, sizeof back) == BTL_SUCCESS, "get after flush");
        memcpy(&back, scratch + 2048, sizeof back);
        expect(back == value, "a flushed put is at %s", target->name);
    }
}

/* ---- Atomics -------------------------------------------------------------------------------- */

/* Checks the word at the target, and the fetched old value in the second local word. */
static void check_word(btl_module *module, const struct target *target, const char *call,
                       struct pending *pending, btl_status issued, uint64_t wanted, bool fetched)
{
    uint64_t *words = (uint64_t *)scratch, before = words[0];
    btl_status status = finish(pending, issued);
    *pending = (struct pending){0};
    expect(status == BTL_SUCCESS, "%s on %s returned %d", call, target->name, (int)status);
    expect(!fetched || words[1] == before, "%s fetches the old word from %s", call, target->name);
    expect(get(module, target, &words[0], 16, 8) == BTL_SUCCESS && words[0] == wanted,
           "%s on %s leaves %#llx", call, target->name, (unsigned long long)words[0]);
}

/* Tests each function for atomics once, if the module offers it. */
static void check_atomics(btl_module *module, const struct target *target)
{
    const btl_module_vtable *v = module->vtable;
    uint64_t *words = (uint64_t *)scratch, at = target->address + 16;
    const uint32_t has = module->attributes->atomic_flags, u64 = BTL_DATATYPE_UINT64;
    struct pending p = {0};
    btl_status s;
    size_t most = 0;
    words[0] = 40, words[2] = 2;
    expect(put(module, target, words, 16, 8) == BTL_SUCCESS, "put of a word");
    if (has & BTL_ATOMIC_ADD) {
        ISSUE(s, v->atomic_op(module, target->endpoint, at, target->handle, BTL_OP_ADD, 2, 0,
                              BTL_NO_ORDER, landed, &p, NULL));
        check_word(module, target, "atomic_op", &p, s, 42, false);
        ISSUE(s, v->atomic_fop(module, target->endpoint, &words[1], at, scratch_handle,
                               target->handle, BTL_OP_ADD, 2, 0, BTL_NO_ORDER, landed, &p, NULL));
        check_word(module, target, "atomic_fop", &p, s, 44, true);
        words[0] = 40;
        expect(put(module, target, words, 16, 8) == BTL_SUCCESS, "put of a word");
    }
    if (has & BTL_ATOMIC_CSWAP) {
        ISSUE(s, v->atomic_cswap(module, target->endpoint, &words[1], at, scratch_handle,
                                 target->handle, 40, 40, 0, BTL_NO_ORDER, landed, &p, NULL));
        check_word(module, target, "atomic_cswap", &p, s, 40, true);
    }
    if (v->atomic_query(module, u64, BTL_ATOMIC_OP_SUM, BTL_ATOMIC_KIND_UPDATE, &most) == 0) {
        expect(most >= 1, "updates of one element at least");
        ISSUE(s, v->atomic_opv(module, target->endpoint, &words[2], at, scratch_handle,
                               target->handle, u64, BTL_ATOMIC_OP_SUM, 1, landed, &p, NULL));
        check_word(module, target, "atomic_opv", &p, s, 42, false);
    }
    if (v->atomic_query(module, u64, BTL_ATOMIC_OP_SUM, BTL_ATOMIC_KIND_FETCH, &most) == 0) {
        uint64_t wanted = words[0] + 2;
        ISSUE(s, v->atomic_fopv(module, target->endpoint, &words[2], &words[1], at, scratch_handle,
                                scratch_handle, target->handle, u64, BTL_ATOMIC_OP_SUM, 1, landed,
                                &p, NULL));
        check_word(module, target, "atomic_fopv", &p, s, wanted, true);
    }
    if (v->atomic_query(module, u64, BTL_ATOMIC_OP_CSWAP, BTL_ATOMIC_KIND_COMPARE, &most) == 0) {
        words[3] = words[0];
        ISSUE(s, v->atomic_cswapv(module, target->endpoint, &words[2], &words[3], &words[1], at,
                                  scratch_handle, target->handle, u64, landed, &p, NULL));
        check_word(module, target, "atomic_cswapv", &p, s, 2, true);
    }
}

/* ---- All checks on one module
 * ---------------------------------------------------------------- */

static void check_module_refusals(btl_module *module, const struct target *targets, size_t count);

/* Each process writes a mark into the other's memory, and the other sees the mark without any
 * call. */
static void check_marks(btl_module *module, const struct target *partner)
{
    volatile uint64_t *mark = (volatile uint64_t *)(window + (1 - host.rank) * AREA + 2048);
    uint64_t *words = (uint64_t *)scratch;
    words[0] = 1000 + host.rank;
    expect(put(module, partner, words, 2048, sizeof *words) == BTL_SUCCESS, "put of a mark");
    host_barrier(&host);
    expect(*mark == 1000 + (1 - host.rank), "a completed put of the partner is visible here");
}

/* Offers this process's window and learns the partner's window. */
static btl_handle *exchange_windows(btl_module *module, struct offer offers[2])
{
    btl_handle *handle = NULL;
    const uint32_t access = BTL_ACCESS_LOCAL_WRITE | BTL_ACCESS_REMOTE_READ |
                            BTL_ACCESS_REMOTE_WRITE | BTL_ACCESS_REMOTE_ATOMIC;
    uint64_t size = module->attributes->handle_size;
    if (!expect(size > 0 && size % 8 == 0 && size <= sizeof offers[0].handle,
                "a handle of %llu bytes", (unsigned long long)size))
        exit(1);
    if (!expect(module->vtable->register_mem(module, NULL, window, sizeof window, access,
                                             &handle) == BTL_SUCCESS,
                "registration of the window"))
        exit(1);
    if (!expect(module->vtable->register_mem(module, NULL, scratch, sizeof scratch, access,
                                             &scratch_handle) == BTL_SUCCESS,
                "registration of local buffers"))
        exit(1);
    memset(offers, 0, 2 * sizeof *offers);
    offers[host.rank].base = (uintptr_t)window;
    memcpy(offers[host.rank].handle, handle, size);
    host_exchange(&host, &offers[host.rank], &offers[1 - host.rank], sizeof *offers);
    return handle;
}

#include "notify.h"
#include "sends.h"

static void check_module(btl_module *module)
{
    const btl_module_vtable *vtable = module->vtable;
    uint64_t procs[2] = {host.rank, 1 - host.rank};
    btl_endpoint *endpoints[2] = {NULL}, *again[2] = {NULL};
    btl_stats stats = {.header = BTL_TABLE_HEADER(btl_stats, BTL_MAGIC_STATS)};
    struct offer offers[2];
    struct target targets[2];
    btl_handle *handle;

    if (!expect(vtable->add_procs(module, 2, procs, endpoints) == BTL_SUCCESS &&
                    endpoints[0] != NULL && endpoints[1] != NULL,
                "endpoints for this process and its partner"))
        exit(1);
    expect(vtable->add_procs(module, 2, procs, again) == BTL_SUCCESS && again[0] == endpoints[0] &&
               again[1] == endpoints[1],
           "a known process gets its existing endpoint");
    expect(vtable->del_procs(module, 2, again) == BTL_SUCCESS, "the second count is given back");
    handle = exchange_windows(module, offers);
    for (int at = 0; at < 2; at++)
        targets[at] = (struct target){
            .endpoint = endpoints[at],
            .address = offers[procs[at]].base + host.rank * AREA,
            .handle = (const btl_handle *)offers[procs[at]].handle,
            .name = at == 0 ? "itself" : "the partner",
        };

    for (int at = 0; at < 2; at++) {
        host_barrier(&host);
        check_put_and_get(module, &targets[at]);
        check_atomics(module, &targets[at]);
    }
    host_barrier(&host);
    check_marks(module, &targets[1]);
    expect(vtable->stats(module, &stats) == BTL_SUCCESS && stats.posted > 0 &&
               stats.completed + stats.failed == stats.posted && stats.registrations >= 2 &&
               stats.endpoints == 2,
           "stats: posted %llu, completed %llu, failed %llu, registrations %llu, endpoints %llu",
           (unsigned long long)stats.posted, (unsigned long long)stats.completed,
           (unsigned long long)stats.failed, (unsigned long long)stats.registrations,
           (unsigned long long)stats.endpoints);
    check_module_refusals(module, targets, 2);
    expect(vtable->flush(module, NULL) == BTL_SUCCESS, "flush after the refusals");
    check_put_and_get(module, &targets[1]);
    if (FUTURE_HOLDS(vtable, btl_module_vtable, put_notify) && vtable->put_notify != NULL)
        check_notify(module, &targets[1]);
    if (module->attributes->flags & BTL_FLAG_SEND)
        check_sends(module, endpoints[1]);

    host_barrier(&host);
    expect(vtable->deregister_mem(module, scratch_handle) == BTL_SUCCESS, "deregistration");
    expect(vtable->deregister_mem(module, handle) == BTL_SUCCESS, "deregistration");
    expect(vtable->del_procs(module, 2, endpoints) == BTL_SUCCESS, "the endpoints are released");
    host_barrier(&host);
}
