/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of host.c whose calls must be refused: tables of another ABI, and invalid handles.
 * tests/bad_arguments tests NULL and invalid codes.
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

/* ---- On a module ---------------------------------------------------------------------------- */

/* Refusals that concern no operation, and handles that are no longer registered. */
static void check_memory_refusals(btl_module *module, const struct target *target)
{
    const btl_module_vtable *vtable = module->vtable;
    static uint64_t page[512] __attribute__((aligned(4096)));
    btl_stats stats = {.header = BTL_TABLE_HEADER(btl_stats, BTL_MAGIC_MODULE)};
    btl_endpoint *endpoint = NULL;
    btl_handle *handle = NULL;
    uint64_t proc = 77;
    expect(vtable->stats(module, &stats) < 0, "counts into a table with another magic");

    expect(vtable->add_procs(module, 1, &proc, &endpoint) < 0 || endpoint == NULL,
           "a process that published nothing has no endpoint");
    if (expect(vtable->register_mem(module, NULL, page, sizeof page, 0xf, &handle) == BTL_SUCCESS,
               "registration of a page")) {
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
    for (size_t at = 0; at < count; at++)
        check_memory_refusals(module, &targets[at]);
}
