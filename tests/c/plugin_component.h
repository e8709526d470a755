/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of plugin.c that makes and ends objects: modules, the component, its table, and the
 * exported function.
 */

/* ---- The life of a module ------------------------------------------------------------------- */

static btl_status make_module(btl_component *component, struct module **out)
{
    const btl_host_vtable *host = component->host;
    struct module *module = calloc(1, sizeof *module);
    attributes_table *attributes = malloc(sizeof *attributes);
    btl_status status = BTL_OUT_OF_RESOURCE;
    if (module != NULL && attributes != NULL)
        module->segment = segment_create(&module->address);
    if (module == NULL || attributes == NULL || module->segment == NULL)
        goto fail;
    status = host->modex_put(host->context, MODEX_KEY, &module->address, sizeof module->address);
    if (status != BTL_SUCCESS)
        goto fail;
    *attributes = module_attributes;
    module->attributes = (btl_attributes *)attributes;
    module->public.vtable = (const btl_module_vtable *)&module_vtable;
    module->public.attributes = module->attributes;
    module->component = component;
    module->newest = &module->oldest;
    pthread_mutex_init(&module->lock, NULL);
    *out = module;
    return BTL_SUCCESS;
fail:
    if (module != NULL && module->segment != NULL) {
        munmap(module->segment, sizeof *module->segment);
        close(module->address.fd);
    }
    free(attributes);
    free(module);
    return status;
}

/* ---- The component -------------------------------------------------------------------------- */

static btl_status read_queue_depth(const btl_host_vtable *host, uint64_t *depth)
{
    const btl_param_decl decl = {
        .name = "btl_cma_queue_depth",
        .help = "Callbacks that may wait for progress; 0 completes operations at once",
        .default_value = {.kind = BTL_PARAM_SIZE_T, .bits = {.u = 64}},
        .min = 0,
        .max = 1 << 20,
        .level = 5,
    };
    btl_param_value value = {0};
    btl_status status = host->param_register(host->context, &decl, &value);
    if (status == BTL_SUCCESS)
        *depth = value.bits.u;
    return status;
}

static btl_status register_params(const btl_host_vtable *host)
{
    uint64_t depth;
    return host == NULL ? BTL_BAD_PARAM : read_queue_depth(host, &depth);
}

static btl_status component_open(const btl_host_vtable *host, btl_component **out)
{
    btl_component *component;
    btl_status status;
    if (host == NULL || out == NULL)
        return BTL_BAD_PARAM;
    component = calloc(1, sizeof *component);
    if (component == NULL)
        return BTL_OUT_OF_RESOURCE;
    component->host = host;
    const char *delay = getenv("CMA_DELAY_US");
    component->delay = delay == NULL ? 0 : strtoull(delay, NULL, 10) * 1000;
    const char *breaking = getenv("CMA_BREAKING_BYTES");
    component->breaking = breaking == NULL ? 0 : strtoull(breaking, NULL, 10);
    status = read_queue_depth(host, &component->queue_depth);
    if (status != BTL_SUCCESS)
        free(component);
    else
        *out = component;
    return status;
}

static btl_status survey(btl_component *component, btl_survey_fn visit, void *context)
{
    bool works = peer_copy_works();
    btl_provider provider = {
        .name = "cma",
        .domain = "node",
        .refusal = works ? NULL : "the kernel does not permit process_vm_readv",
        .chosen = works,
    };
    if (component == NULL || visit == NULL)
        return BTL_BAD_PARAM;
    visit(context, &provider);
    return BTL_SUCCESS;
}

static btl_status init(btl_component *component, uint32_t thread_level, btl_module **modules,
                       size_t *count)
{
    btl_status status;
    if (component == NULL || modules == NULL || count == NULL || *count == 0 ||
        thread_level > BTL_THREAD_MULTIPLE || component->module != NULL)
        return BTL_BAD_PARAM;
    if (!peer_copy_works()) {
        say(component->host, BTL_LOG_ERROR, "cma: the kernel does not permit process_vm_readv");
        return BTL_NOT_AVAILABLE;
    }
    status = make_module(component, &component->module);
    if (status != BTL_SUCCESS)
        return status;
    modules[0] = &component->module->public;
    *count = 1;
    return BTL_SUCCESS;
}

static int32_t progress(btl_component *component)
{
    int32_t ran = 0;
    if (component == NULL)
        return BTL_BAD_PARAM;
    if (component->module == NULL)
        return 0;
    if (atomic_load(&component->broken))
        return BTL_ERROR;
    if (atomic_fetch_add(&component->calls, 1) % 256 == 0)
        look_for_ended_peers(component->module);
    while (ran < 16 && run_one(component->module))
        ran++;
    return ran;
}

static btl_status component_close(btl_component *component)
{
    if (component == NULL)
        return BTL_BAD_PARAM;
    if (component->module != NULL)
        finalize(&component->module->public);
    free(component);
    return BTL_SUCCESS;
}

static const component_table component_vtable = {
    V1_0(
#if defined(BAD_MAGIC)
        .header = {UINT64_C(0x31504d4f43505145), BTL_ABI_MAJOR, 0, sizeof(component_table)},
#elif defined(BAD_MAJOR)
        .header = {BTL_MAGIC_COMPONENT, BTL_ABI_MAJOR + 1, 3, sizeof(component_table)},
#elif defined(BAD_SIZE)
        .header = {BTL_MAGIC_COMPONENT, BTL_ABI_MAJOR, 0, BTL_COMPONENT_VTABLE_MIN_SIZE - 8},
#else
        .header = {BTL_MAGIC_COMPONENT, BTL_ABI_MAJOR, ABI_MINOR_HERE, sizeof(component_table)},
#endif
        .name = "cma", .version = "1.0, cross-process copies of Linux",
        .register_params = register_params, .open = component_open,
#ifndef BAD_ENTRY
        .survey = survey,
#endif
        .init = init, .progress = progress, .close = component_close),
};

static btl_status check_host(const btl_host_vtable *host)
{
    if (host == NULL || host->header.magic != BTL_MAGIC_HOST ||
        host->header.abi_major != BTL_ABI_MAJOR ||
        host->header.size < BTL_HOST_VTABLE_MIN_SIZE || host->param_register == NULL ||
        host->modex_put == NULL || host->modex_get == NULL || host->log == NULL)
        return BTL_TYPE_MISMATCH;
    return BTL_SUCCESS;
}

#ifdef NO_SYMBOL
#define btl_plugin_entry_v1 btl_plugin_entry_v0
btl_status btl_plugin_entry_v0(const btl_host_vtable *host, const btl_component_vtable **out);
#endif

btl_status btl_plugin_entry_v1(const btl_host_vtable *host, const btl_component_vtable **out)
{
    btl_status status = check_host(host);
    if (status != BTL_SUCCESS)
        return status;
    if (out == NULL)
        return BTL_BAD_PARAM;
#if defined(REFUSES_HOST)
    say(host, BTL_LOG_ERROR, "cma: wanted a host of another kind");
    return BTL_TYPE_MISMATCH;
#elif defined(NO_TABLE)
    return BTL_SUCCESS;
#else
    *out = (const btl_component_vtable *)&component_vtable;
    return BTL_SUCCESS;
#endif
}
