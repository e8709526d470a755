/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of host.c that asks for what must be refused: a status, and nothing changed.
 */

/* ---- Before there is a module --------------------------------------------------------------- */

static void check_entry_refusals(btl_entry_fn entry)
{
    const btl_component_vtable *out = NULL;
    btl_host_vtable bad = *host_table(&host);
    expect(entry(NULL, &out) == BTL_TYPE_MISMATCH, "a host table that is NULL");
    expect(entry(&bad, NULL) < 0, "no place for the component's table");
    bad.header.magic = BTL_MAGIC_MODULE;
    expect(entry(&bad, &out) == BTL_TYPE_MISMATCH, "a host table with another magic");
    bad = *host_table(&host);
    bad.header.abi_major = BTL_ABI_MAJOR + 1;
    expect(entry(&bad, &out) == BTL_TYPE_MISMATCH, "a host of another major");
    bad = *host_table(&host);
    bad.header.size = BTL_HOST_VTABLE_MIN_SIZE - 1;
    expect(entry(&bad, &out) == BTL_TYPE_MISMATCH, "a host table that is too short");
    bad = *host_table(&host);
    bad.modex_get = NULL;
    expect(entry(&bad, &out) == BTL_TYPE_MISMATCH, "a host table with a NULL entry");
    expect(out == NULL, "a refusal hands out no table");
}

static void check_component_refusals(const btl_component_vtable *component,
                                     btl_component *instance)
{
    btl_component *none = NULL;
    btl_module *modules[4];
    size_t count = 4, zero = 0;
    expect(component->register_params(NULL) < 0, "register_params without a host");
    expect(component->open(NULL, &none) < 0 && none == NULL, "open without a host");
    expect(component->open(host_table(&host), NULL) < 0, "open without a place for the component");
    expect(component->survey(NULL, NULL, NULL) < 0, "survey of no component");
    expect(component->survey(instance, NULL, NULL) < 0, "survey without a visitor");
    expect(component->init(NULL, 0, modules, &count) < 0, "init of no component");
    expect(component->init(instance, 0, NULL, &count) < 0, "init without a place for modules");
    expect(component->init(instance, 0, modules, NULL) < 0, "init without a count");
    expect(component->init(instance, 0, modules, &zero) < 0, "init with room for no module");
    expect(component->init(instance, 4, modules, &count) < 0, "init with an unknown thread level");
    expect(component->progress(NULL) < 0, "progress of no component");
    expect(component->close(NULL) < 0, "close of no component");
}

/* ---- On a module ---------------------------------------------------------------------------- */

/* Everything a put or get can be refused for; they share their parameters. */
static void check_copy_refusals(btl_module *module, const struct target *target, bool write)
{
    const char *name = write ? "put" : "get";
    btl_status (*copy)(btl_module *, btl_endpoint *, void *, uint64_t, btl_handle *,
                       const btl_handle *, size_t, uint32_t, int32_t, btl_completion_fn, void *,
                       void *) = write ? module->vtable->put : module->vtable->get;
    const uint64_t window_start = target->address - host.rank * AREA;
    struct pending pending = {0};
#define COPY(module, endpoint, local, remote, local_handle, remote_handle, size)            \
    copy(module, endpoint, local, remote, local_handle, remote_handle, size, 0, BTL_NO_ORDER, \
         landed, &pending, NULL)
    expect(COPY(NULL, target->endpoint, scratch, target->address, scratch_handle, target->handle,
                8) < 0, "%s on no module", name);
    expect(COPY(module, NULL, scratch, target->address, scratch_handle, target->handle, 8) < 0,
           "%s to no endpoint", name);
    expect(COPY(module, target->endpoint, NULL, target->address, scratch_handle, target->handle,
                8) < 0, "%s without a local address", name);
    expect(COPY(module, target->endpoint, scratch, target->address, scratch_handle, NULL, 8) < 0,
           "%s without a remote handle", name);
    expect(COPY(module, target->endpoint, scratch, window_start + 2 * AREA - 4, scratch_handle,
                target->handle, 8) == BTL_VALUE_OUT_OF_BOUNDS, "%s over the end", name);
    expect(COPY(module, target->endpoint, scratch, window_start + 2 * AREA + 64, scratch_handle,
                target->handle, 8) == BTL_VALUE_OUT_OF_BOUNDS, "%s behind the end", name);
    expect(COPY(module, target->endpoint, scratch, window_start - 4, scratch_handle,
                target->handle, 8) == BTL_VALUE_OUT_OF_BOUNDS, "%s before the start", name);
    expect(COPY(module, target->endpoint, scratch, UINT64_MAX - 3, scratch_handle, target->handle,
                8) == BTL_VALUE_OUT_OF_BOUNDS, "%s around the end of memory", name);
    expect(COPY(module, target->endpoint, scratch, window_start, scratch_handle, target->handle,
                SIZE_MAX) < 0, "%s of everything", name);
#undef COPY
    expect(pending.calls == 0, "no callback runs for a refused %s", name);
}

static void check_atomic_refusals(btl_module *module, const struct target *target)
{
    const btl_module_vtable *vtable = module->vtable;
    btl_endpoint *endpoint = target->endpoint;
    const btl_handle *remote = target->handle;
    const uint64_t at = target->address, end = target->address - host.rank * AREA + 2 * AREA;
    struct pending pending = {0};
    size_t most = 0;
    expect(vtable->atomic_op(NULL, endpoint, at, remote, BTL_OP_ADD, 1, 0, BTL_NO_ORDER, landed,
                             &pending, NULL) < 0, "atomic_op on no module");
    expect(vtable->atomic_op(module, NULL, at, remote, BTL_OP_ADD, 1, 0, BTL_NO_ORDER, landed,
                             &pending, NULL) < 0, "atomic_op to no endpoint");
    expect(vtable->atomic_op(module, endpoint, at, NULL, BTL_OP_ADD, 1, 0, BTL_NO_ORDER, landed,
                             &pending, NULL) < 0, "atomic_op without a handle");
    expect(vtable->atomic_op(module, endpoint, at, remote, 0xdead, 1, 0, BTL_NO_ORDER, landed,
                             &pending, NULL) < 0, "atomic_op with an unknown code");
    expect(vtable->atomic_op(module, endpoint, end, remote, BTL_OP_ADD, 1, 0, BTL_NO_ORDER, landed,
                             &pending, NULL) == BTL_VALUE_OUT_OF_BOUNDS, "atomic_op at the end");
    expect(vtable->atomic_fop(module, endpoint, NULL, at, scratch_handle, remote, BTL_OP_ADD, 1, 0,
                              BTL_NO_ORDER, landed, &pending, NULL) < 0,
           "atomic_fop without a place for the result");
    expect(vtable->atomic_cswap(module, endpoint, NULL, at, scratch_handle, remote, 0, 1, 0,
                                BTL_NO_ORDER, landed, &pending, NULL) < 0,
           "atomic_cswap without a place for the result");
    expect(vtable->atomic_query(NULL, 6, 2, 0, &most) < 0 &&
               vtable->atomic_query(module, 6, 2, 0, NULL) < 0 &&
               vtable->atomic_query(module, 10, 2, 0, &most) < 0 &&
               vtable->atomic_query(module, 6, 13, 0, &most) < 0 &&
               vtable->atomic_query(module, 6, 2, 3, &most) < 0,
           "atomic_query of nothing, or with unknown codes");
    expect(vtable->atomic_opv(module, endpoint, scratch, at, scratch_handle, remote, 99, 2, 1,
                              landed, &pending, NULL) < 0, "atomic_opv of an unknown datatype");
    expect(vtable->atomic_opv(module, endpoint, scratch, at, scratch_handle, remote, 6, 99, 1,
                              landed, &pending, NULL) < 0, "atomic_opv of an unknown operation");
    expect(vtable->atomic_opv(module, endpoint, NULL, at, scratch_handle, remote, 6, 2, 1, landed,
                              &pending, NULL) < 0, "atomic_opv without operands");
    expect(vtable->atomic_opv(module, endpoint, scratch, at + 4, scratch_handle, remote, 6, 2, 1,
                              landed, &pending, NULL) < 0, "atomic_opv on a misaligned word");
    expect(vtable->atomic_opv(module, endpoint, scratch, at, scratch_handle, remote, 6, 2,
                              SIZE_MAX / 4, landed, &pending, NULL) < 0, "atomic_opv of too many");
    expect(vtable->atomic_fopv(module, endpoint, scratch, NULL, at, scratch_handle, scratch_handle,
                               remote, 6, 2, 1, landed, &pending, NULL) < 0,
           "atomic_fopv without a place for the result");
    expect(vtable->atomic_cswapv(module, endpoint, scratch, NULL, scratch, at, scratch_handle,
                                 remote, 6, landed, &pending, NULL) < 0,
           "atomic_cswapv without a value to compare");
    expect(pending.calls == 0, "no callback runs for a refused atomic");
}

/* Refusals that concern no operation, and handles that are no longer registered. */
static void check_memory_refusals(btl_module *module, const struct target *target)
{
    const btl_module_vtable *vtable = module->vtable;
    static uint64_t page[512] __attribute__((aligned(4096)));
    btl_stats stats = {.header = BTL_TABLE_HEADER(btl_stats, BTL_MAGIC_MODULE)};
    btl_endpoint *endpoint = NULL;
    btl_handle *handle = NULL;
    uint64_t proc = host.rank;
    expect(vtable->register_mem(NULL, NULL, page, sizeof page, 0xf, &handle) < 0 &&
               vtable->register_mem(module, NULL, NULL, sizeof page, 0xf, &handle) < 0 &&
               vtable->register_mem(module, NULL, page, SIZE_MAX, 0xf, &handle) < 0 &&
               vtable->register_mem(module, NULL, page, sizeof page, 0xf, NULL) < 0,
           "registration on no module, of nothing, of too much, without a place for the handle");
    expect(vtable->add_procs(NULL, 1, &proc, &endpoint) < 0 &&
               vtable->add_procs(module, 1, NULL, &endpoint) < 0 &&
               vtable->add_procs(module, 1, &proc, NULL) < 0 &&
               vtable->del_procs(NULL, 1, &endpoint) < 0 && vtable->del_procs(module, 1, NULL) < 0,
           "endpoints on no module, of no process, without a place for them");
    expect(vtable->flush(NULL, NULL) < 0 && vtable->register_error(NULL, NULL, NULL) < 0 &&
               vtable->stats(NULL, &stats) < 0 && vtable->stats(module, NULL) < 0 &&
               vtable->stats(module, &stats) < 0 && vtable->finalize(NULL) < 0,
           "the other functions on no module, and counts into a wrong table");

    proc = 77;
    expect(vtable->add_procs(module, 1, &proc, &endpoint) < 0 || endpoint == NULL,
           "a process that published nothing has no endpoint");
    if (expect(vtable->register_mem(module, NULL, page, sizeof page, 0xf, &handle) == BTL_SUCCESS,
               "registration of a page")) {
        expect(vtable->deregister_mem(NULL, handle) < 0 && vtable->deregister_mem(module, NULL) < 0,
               "deregistration on no module, and of nothing");
        expect(vtable->deregister_mem(module, handle) == BTL_SUCCESS, "deregistration of a page");
        expect(vtable->deregister_mem(module, handle) == BTL_BAD_PARAM, "a second deregistration");
        expect(vtable->deregister_mem(module, (btl_handle *)page) == BTL_BAD_PARAM,
               "deregistration of what is no handle");
        if (module->attributes->put_local_registration_threshold < sizeof page)
            expect(vtable->put(module, target->endpoint, page, target->address, handle,
                               target->handle, sizeof page, 0, BTL_NO_ORDER, landed, NULL,
                               NULL) < 0, "put from memory that is no longer registered");
    }
}

static void check_module_refusals(btl_module *module, const struct target *targets, size_t count)
{
    for (size_t at = 0; at < count; at++) {
        check_copy_refusals(module, &targets[at], true);
        check_copy_refusals(module, &targets[at], false);
        check_atomic_refusals(module, &targets[at]);
        check_memory_refusals(module, &targets[at]);
    }
}
