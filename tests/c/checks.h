/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of host.c that uses a module: each operation on each target, against a model.
 */

/* Bytes of memory that each process offers, in two halves by origin, and of local buffers. */
#define AREA 4096
#define ELEMENTS 3

/* What one process tells the other about its memory. */
struct offer {
    uint64_t base;
    uint64_t handle[32]; /* 256 bytes, the most a handle may have */
};

/* One target as this process sees it. */
struct target {
    btl_endpoint *endpoint;
    uint64_t address; /* of the half that this process may change */
    const btl_handle *handle;
    const char *name;
};

/* An operation under way. */
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

/* Issues `call` until the module has room for it; `status` is its last answer. */
#define ISSUE(status, call)                                                                \
    do {                                                                                   \
        status = (call);                                                                   \
        if (status == BTL_TEMP_OUT_OF_RESOURCE || status == BTL_OUT_OF_RESOURCE)           \
            progress();                                                                    \
    } while (status == BTL_TEMP_OUT_OF_RESOURCE || status == BTL_OUT_OF_RESOURCE)

/* Waits for an operation that was issued with `landed` and &pending; its final status. */
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
    static const size_t sizes[] = {0, 1, 7, 8, 64, 1000};
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

    /* The callback gets what the call was given. */
    ISSUE(status, vtable->put(module, target->endpoint, scratch, target->address, scratch_handle,
                              target->handle, 8, 0, BTL_NO_ORDER, landed, &pending, &token));
    expect(finish(&pending, status) == BTL_SUCCESS, "put with data to %s", target->name);
    expect(status == BTL_COMPLETED ||
               (pending.module == module && pending.endpoint == target->endpoint &&
                pending.local_address == scratch && pending.local_handle == scratch_handle &&
                pending.data == &token),
           "the callback gets the arguments of its put to %s", target->name);

    /* Without callback, flush is how one learns of completion; without handle up to the threshold. */
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

/* ---- Word atomics --------------------------------------------------------------------------- */

static const struct {
    uint32_t op, flag;
    const char *name;
} word_ops[] = {
    {BTL_OP_ADD, BTL_ATOMIC_ADD, "add"},    {BTL_OP_AND, BTL_ATOMIC_AND, "and"},
    {BTL_OP_OR, BTL_ATOMIC_OR, "or"},       {BTL_OP_XOR, BTL_ATOMIC_XOR, "xor"},
    {BTL_OP_LAND, BTL_ATOMIC_LAND, "land"}, {BTL_OP_LOR, BTL_ATOMIC_LOR, "lor"},
    {BTL_OP_LXOR, BTL_ATOMIC_LXOR, "lxor"}, {BTL_OP_SWAP, BTL_ATOMIC_SWAP, "swap"},
    {BTL_OP_MIN, BTL_ATOMIC_MIN, "min"},    {BTL_OP_MAX, BTL_ATOMIC_MAX, "max"},
};

/* One operation on a word with old value `old`, as update and as fetch. */
static void check_word(btl_module *module, const struct target *target, size_t which, uint64_t old,
                       uint64_t operand, uint32_t flags)
{
    const btl_module_vtable *vtable = module->vtable;
    uint32_t has = module->attributes->atomic_flags, datatype = element_type_of_word(flags);
    size_t size = element_size(datatype);
    bool served = (has & word_ops[which].flag) &&
                  (!(flags & BTL_OP_FLAG_WORD_32) || (has & BTL_ATOMIC_WORD_32));
    for (int fetch = 0; fetch < 2; fetch++) {
        struct pending pending = {0};
        uint64_t wanted = old, *words = (uint64_t *)scratch;
        btl_status status;
        words[0] = old;
        expect(put(module, target, words, 16, 8) == BTL_SUCCESS, "put of a word");
        words[1] = 0;
        if (fetch)
            ISSUE(status,
                  vtable->atomic_fop(module, target->endpoint, &words[1], target->address + 16,
                                     scratch_handle, target->handle, word_ops[which].op, operand,
                                     flags, BTL_NO_ORDER, landed, &pending, NULL));
        else
            ISSUE(status, vtable->atomic_op(module, target->endpoint, target->address + 16,
                                            target->handle, word_ops[which].op, operand, flags,
                                            BTL_NO_ORDER, landed, &pending, NULL));
        status = finish(&pending, status);
        if (!served) {
            expect(status == BTL_NOT_SUPPORTED, "%s is not offered, and returned %d",
                   word_ops[which].name, (int)status);
            continue;
        }
        expect(status == BTL_SUCCESS, "%s %s on %s returned %d", fetch ? "fetch" : "update",
               word_ops[which].name, target->name, (int)status);
        element_apply(datatype, (uint32_t)element_op_of_word(word_ops[which].op), &wanted, &operand,
                      NULL);
        expect(!fetch || memcmp(&words[1], &old, size) == 0, "%s fetches the old word from %s",
               word_ops[which].name, target->name);
        expect(get(module, target, &words[2], 16, 8) == BTL_SUCCESS && words[2] == wanted,
               "%s of %zu bits on %s: wanted %#llx, found %#llx", word_ops[which].name, size * 8,
               target->name, (unsigned long long)wanted, (unsigned long long)words[2]);
    }
}

static void check_cswap(btl_module *module, const struct target *target, uint32_t flags)
{
    bool offered = module->attributes->atomic_flags & BTL_ATOMIC_CSWAP;
    for (int equal = 0; equal < 2; equal++) {
        struct pending pending = {0};
        uint64_t *words = (uint64_t *)scratch, wanted;
        btl_status status;
        words[0] = UINT64_C(0x1111111122222222);
        wanted = !equal                        ? words[0]
                 : flags & BTL_OP_FLAG_WORD_32 ? UINT64_C(0x1111111100000007)
                                               : 7;
        words[1] = 0;
        expect(put(module, target, words, 24, 8) == BTL_SUCCESS, "put of a word");
        ISSUE(status,
              module->vtable->atomic_cswap(
                  module, target->endpoint, &words[1], target->address + 24, scratch_handle,
                  target->handle, flags ? UINT32_C(0x22222222) + !equal : words[0] + !equal, 7,
                  flags, BTL_NO_ORDER, landed, &pending, NULL));
        status = finish(&pending, status);
        if (!offered || (flags && !(module->attributes->atomic_flags & BTL_ATOMIC_WORD_32))) {
            expect(status == BTL_NOT_SUPPORTED, "compare-swap is not offered");
            continue;
        }
        expect(status == BTL_SUCCESS, "compare-swap on %s returned %d", target->name, (int)status);
        expect(memcmp(&words[1], &words[0], flags ? 4 : 8) == 0, "compare-swap fetches");
        expect(get(module, target, &words[2], 24, 8) == BTL_SUCCESS && words[2] == wanted,
               "compare-swap with %s value on %s", equal ? "the right" : "another", target->name);
    }
}

/* ---- Typed atomics -------------------------------------------------------------------------- */

/* Fills elements with small values of either sign that are exact in every type. */
static void fill(uint32_t datatype, void *elements, int first)
{
    for (int at = 0; at < ELEMENTS; at++) {
        double value = at % 2 && datatype != BTL_DATATYPE_UINT8 ? first + at : first + 2 * at;
        int64_t integer = (int64_t)value;
        float narrow = (float)value;
        void *to = (char *)elements + (size_t)at * element_size(datatype);
        if (datatype == BTL_DATATYPE_DOUBLE)
            memcpy(to, &value, sizeof value);
        else if (datatype == BTL_DATATYPE_FLOAT)
            memcpy(to, &narrow, sizeof narrow);
        else
            memcpy(to, &integer, element_size(datatype)); /* little-endian: the low bytes */
    }
}

/* One operation, type and shape that the module says it serves. */
static void check_typed(btl_module *module, const struct target *target, uint32_t datatype,
                        uint32_t op, uint32_t kind, size_t count)
{
    const btl_module_vtable *vtable = module->vtable;
    size_t element = element_size(datatype), size = element * count;
    unsigned char *old = scratch, *operands = scratch + 256, *results = scratch + 512,
                  *compare = scratch + 768, *back = scratch + 1024, wanted[64];
    struct pending pending = {0};
    btl_status status;
    fill(datatype, old, -3);
    fill(datatype, operands, 2);
    fill(datatype, compare, -3);
    memcpy(wanted, old, size);
    for (size_t at = 0; at < size; at += element)
        element_apply(datatype, op, wanted + at, operands + at, compare + at);
    expect(put(module, target, old, 64, size) == BTL_SUCCESS, "put of elements");
    memset(results, 0xee, size);
    if (kind == BTL_ATOMIC_KIND_UPDATE)
        ISSUE(status, vtable->atomic_opv(module, target->endpoint, operands, target->address + 64,
                                         scratch_handle, target->handle, datatype, op, count,
                                         landed, &pending, NULL));
    else if (kind == BTL_ATOMIC_KIND_FETCH && op == BTL_ATOMIC_OP_READ)
        ISSUE(status, vtable->atomic_fopv(module, target->endpoint, NULL, results,
                                          target->address + 64, NULL, scratch_handle,
                                          target->handle, datatype, op, count, landed, &pending,
                                          NULL));
    else if (kind == BTL_ATOMIC_KIND_FETCH)
        ISSUE(status, vtable->atomic_fopv(module, target->endpoint, operands, results,
                                          target->address + 64, scratch_handle, scratch_handle,
                                          target->handle, datatype, op, count, landed, &pending,
                                          NULL));
    else
        ISSUE(status, vtable->atomic_cswapv(module, target->endpoint, operands, compare, results,
                                            target->address + 64, scratch_handle, target->handle,
                                            datatype, landed, &pending, NULL));
    status = finish(&pending, status);
    expect(status == BTL_SUCCESS, "datatype %u, operation %u, kind %u on %s returned %d", datatype,
           op, kind, target->name, (int)status);
    expect(kind == BTL_ATOMIC_KIND_UPDATE || memcmp(results, old, size) == 0,
           "datatype %u, operation %u, kind %u fetches the old elements from %s", datatype, op,
           kind, target->name);
    expect(get(module, target, back, 64, size) == BTL_SUCCESS && memcmp(back, wanted, size) == 0,
           "datatype %u, operation %u, kind %u leaves the right elements at %s", datatype, op, kind,
           target->name);
}

static unsigned check_all_typed(btl_module *module, const struct target *target)
{
    unsigned served = 0;
    for (uint32_t datatype = 0; datatype <= BTL_DATATYPE_DOUBLE; datatype++)
        for (uint32_t op = 0; op <= BTL_ATOMIC_OP_CSWAP; op++)
            for (uint32_t kind = 0; kind <= BTL_ATOMIC_KIND_COMPARE; kind++) {
                size_t most = 0;
                btl_status status =
                    module->vtable->atomic_query(module, datatype, op, kind, &most);
                /* Of the compare shapes, the ABI has a function for the plain one only. */
                if (kind == BTL_ATOMIC_KIND_COMPARE && op != BTL_ATOMIC_OP_CSWAP)
                    continue;
                expect(status == BTL_NOT_SUPPORTED || (status == BTL_SUCCESS && most >= 1),
                       "query of datatype %u, operation %u, kind %u returned %d", datatype, op,
                       kind, (int)status);
                if (status != BTL_SUCCESS)
                    continue;
                served++;
                check_typed(module, target, datatype, op, kind,
                            kind == BTL_ATOMIC_KIND_COMPARE || most < ELEMENTS ? 1 : ELEMENTS);
            }
    return served;
}

/* ---- Everything on one module --------------------------------------------------------------- */

static void check_target(btl_module *module, const struct target *target)
{
    static const uint32_t widths[] = {0, BTL_OP_FLAG_WORD_32};
    unsigned served;
    check_put_and_get(module, target);
    for (size_t width = 0; width < 2; width++) {
        for (size_t which = 0; which < sizeof word_ops / sizeof *word_ops; which++) {
            check_word(module, target, which, UINT64_C(0x00000001fffffff0), 0x15, widths[width]);
            check_word(module, target, which, UINT64_C(0xfffffffffffffff0), 0, widths[width]);
        }
        check_cswap(module, target, widths[width]);
    }
    served = check_all_typed(module, target);
    if (host.rank == 0)
        printf("%s: %u typed atomics served\n", target->name, served);
}

static void check_module_refusals(btl_module *module, const struct target *targets, size_t count);

/* Each process leaves a mark in the other's memory, which the other sees without asking. */
static void check_marks(btl_module *module, const struct target *partner)
{
    volatile uint64_t *mark = (volatile uint64_t *)(window + (1 - host.rank) * AREA + 2048);
    uint64_t *words = (uint64_t *)scratch;
    words[0] = 1000 + host.rank;
    expect(put(module, partner, words, 2048, sizeof *words) == BTL_SUCCESS, "put of a mark");
    host_barrier(&host);
    expect(*mark == 1000 + (1 - host.rank), "a completed put of the partner is visible here");
}

/* Offers this process's window and learns of the partner's. */
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
        check_target(module, &targets[at]);
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

    host_barrier(&host);
    expect(vtable->deregister_mem(module, scratch_handle) == BTL_SUCCESS, "deregistration");
    expect(vtable->deregister_mem(module, handle) == BTL_SUCCESS, "deregistration");
    expect(vtable->del_procs(module, 2, endpoints) == BTL_SUCCESS, "the endpoints are released");
    host_barrier(&host);
}
