/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rest of plugin.c, included at its end: peers, the life of modules and of the component, the
 * tables and the exported function. The tables are where the bad variants differ from the good one.
 */

/* ---- Peers ---------------------------------------------------------------------------------- */

static btl_status add_one(struct module *module, uint64_t proc, btl_endpoint **out)
{
    const btl_host_vtable *host = module->component->host;
    struct address address;
    btl_endpoint *endpoint;
    size_t size = 0;
    btl_status status;
    for (endpoint = module->endpoints; endpoint != NULL; endpoint = endpoint->next) {
        if (endpoint->proc == proc && !endpoint->peer.gone) {
            endpoint->references++;
            *out = endpoint;
            return BTL_SUCCESS;
        }
    }
    memset(&address, 0, sizeof address);
    status = host->modex_get(host->context, proc, MODEX_KEY, &address, sizeof address, &size);
    if (status != BTL_SUCCESS)
        return status == BTL_NOT_FOUND ? BTL_UNREACH : status;
    endpoint = calloc(1, sizeof *endpoint);
    if (endpoint == NULL)
        return BTL_OUT_OF_RESOURCE;
    status = peer_open(&endpoint->peer, &address, size);
    if (status != BTL_SUCCESS) {
        say(host, BTL_LOG_ERROR,
            "cma: process %llu cannot be reached by its address of %zu bytes (status %d)",
            (unsigned long long)proc, size, (int)status);
        free(endpoint);
        return status;
    }
    endpoint->module = &module->public;
    endpoint->proc = proc;
    endpoint->references = 1;
    endpoint->next = module->endpoints;
    module->endpoints = endpoint;
    *out = endpoint;
    return BTL_SUCCESS;
}

/* A process that nobody answers for gets NULL; bytes that are no address fail the whole call. */
static btl_status add_procs(btl_module *public, size_t count, const uint64_t *procs,
                            btl_endpoint **endpoints)
{
    struct module *module = inside(public);
    btl_status status = BTL_SUCCESS;
    if (module == NULL || (count > 0 && (procs == NULL || endpoints == NULL)))
        return BTL_BAD_PARAM;
    pthread_mutex_lock(&module->lock);
    for (size_t at = 0; at < count; at++) {
        btl_status one = add_one(module, procs[at], &endpoints[at]);
        if (one != BTL_SUCCESS)
            endpoints[at] = NULL;
        if (one != BTL_SUCCESS && one != BTL_UNREACH)
            status = one;
    }
    pthread_mutex_unlock(&module->lock);
    return status;
}

static void release_endpoint(struct module *module, btl_endpoint *endpoint)
{
    btl_endpoint **link = &module->endpoints;
    bool last;
    pthread_mutex_lock(&module->lock);
    while (*link != NULL && *link != endpoint)
        link = &(*link)->next;
    last = *link == endpoint && --endpoint->references == 0;
    if (last)
        *link = endpoint->next;
    pthread_mutex_unlock(&module->lock);
    if (last) {
        drain(module, endpoint, UINT64_MAX);
        peer_close(&endpoint->peer);
        free(endpoint);
    }
}

static btl_status del_procs(btl_module *public, size_t count, btl_endpoint *const *endpoints)
{
    struct module *module = inside(public);
    if (module == NULL || (count > 0 && endpoints == NULL))
        return BTL_BAD_PARAM;
    for (size_t at = 0; at < count; at++)
        if (endpoints[at] != NULL)
            release_endpoint(module, endpoints[at]);
    return BTL_SUCCESS;
}

/* Reports peers that ended without finalising, each once. */
static void look_for_ended_peers(struct module *module)
{
    for (;;) {
        btl_endpoint *endpoint;
        btl_error_fn callback;
        void *context;
        pthread_mutex_lock(&module->lock);
        for (endpoint = module->endpoints; endpoint != NULL; endpoint = endpoint->next)
            if (!endpoint->peer.gone && !atomic_load(&endpoint->peer.segment->closed) &&
                peer_ended(&endpoint->peer))
                break;
        if (endpoint != NULL)
            endpoint->peer.gone = true;
        callback = module->error_callback;
        context = module->error_context;
        pthread_mutex_unlock(&module->lock);
        if (endpoint == NULL)
            return;
        atomic_fetch_add(&module->failed, 1);
        if (callback != NULL)
            callback(&module->public, BTL_ERROR_FLAG_NONFATAL, endpoint, endpoint->proc,
                     BTL_UNREACH, "cma: the process ended without finalising", context);
    }
}

static btl_status register_error(btl_module *public, btl_error_fn callback, void *context)
{
    struct module *module = inside(public);
    if (module == NULL)
        return BTL_BAD_PARAM;
    pthread_mutex_lock(&module->lock);
    module->error_callback = callback;
    module->error_context = context;
    pthread_mutex_unlock(&module->lock);
    return BTL_SUCCESS;
}

static btl_status stats(btl_module *public, btl_stats *out)
{
    struct module *module = inside(public);
    btl_stats now = {0};
    if (module == NULL || out == NULL || out->header.magic != BTL_MAGIC_STATS ||
        out->header.abi_major != BTL_ABI_MAJOR || out->header.size < BTL_STATS_MIN_SIZE)
        return BTL_BAD_PARAM;
    now.header = out->header;
    now.posted = atomic_load(&module->posted);
    now.completed = atomic_load(&module->completed);
    now.failed = atomic_load(&module->failed);
    now.again = atomic_load(&module->again);
    pthread_mutex_lock(&module->lock);
    for (size_t slot = 0; slot < REGION_LIMIT; slot++)
        now.registrations += module->handles[slot] != NULL;
    for (btl_endpoint *endpoint = module->endpoints; endpoint != NULL; endpoint = endpoint->next)
        now.endpoints++;
    pthread_mutex_unlock(&module->lock);
    memcpy(out, &now, sizeof now);
    return BTL_SUCCESS;
}

/* ---- The module's table and life ------------------------------------------------------------ */

#ifdef FUTURE
#define ABI_MINOR_HERE 1
#else
#define ABI_MINOR_HERE BTL_ABI_MINOR
#endif

static btl_status finalize(btl_module *public)
{
    struct module *module = inside(public);
    btl_endpoint *endpoint;
    if (module == NULL)
        return BTL_BAD_PARAM;
    drain(module, NULL, UINT64_MAX);
    atomic_store(&module->segment->closed, 1);
    while ((endpoint = module->endpoints) != NULL) {
        module->endpoints = endpoint->next;
        peer_close(&endpoint->peer);
        free(endpoint);
    }
    for (size_t slot = 0; slot < REGION_LIMIT; slot++) {
        atomic_store(&module->segment->serial[slot], 0);
        free(module->handles[slot]);
    }
    munmap(module->segment, sizeof *module->segment);
    close(module->address.fd);
    pthread_mutex_destroy(&module->lock);
    module->component->module = NULL;
    free(module->attributes);
    free(module);
    return BTL_SUCCESS;
}

#ifdef FUTURE
static btl_status job_size(btl_module *public, uint64_t *size)
{
    const btl_host_vtable *host;
    if (public == NULL || size == NULL)
        return BTL_BAD_PARAM;
    host = inside(public)->component->host;
    *size = FUTURE_HOLDS(host, future_host_vtable, job_size)
                ? ((const future_host_vtable *)host)->job_size(host->context)
                : 0;
    return BTL_SUCCESS;
}
typedef future_module_vtable module_table;
typedef future_attributes attributes_table;
typedef future_component_vtable component_table;
#define V1_0(...) .v1_0 = {__VA_ARGS__}
#else
typedef btl_module_vtable module_table;
typedef btl_attributes attributes_table;
typedef btl_component_vtable component_table;
#define V1_0(...) __VA_ARGS__
#endif

static const module_table module_vtable = {
    V1_0(
#ifdef BAD_MODULE_MAJOR
        .header = {BTL_MAGIC_MODULE, BTL_ABI_MAJOR + 1, 3, sizeof(module_table)},
#else
        .header = {BTL_MAGIC_MODULE, BTL_ABI_MAJOR, ABI_MINOR_HERE, sizeof(module_table)},
#endif
        .add_procs = add_procs, .del_procs = del_procs, .register_mem = register_mem,
        .deregister_mem = deregister_mem, .put = put, .get = get, .atomic_op = atomic_op,
        .atomic_fop = atomic_fop, .atomic_cswap = atomic_cswap,
#ifndef BAD_MODULE_ENTRY
        .flush = flush,
#endif
        .register_error = register_error, .atomic_query = atomic_query, .atomic_opv = atomic_opv,
        .atomic_fopv = atomic_fopv, .atomic_cswapv = atomic_cswapv, .stats = stats,
        .finalize = finalize),
#ifdef FUTURE
    .job_size = job_size,
#endif
};

static const attributes_table module_attributes = {
    V1_0(
        .header = {BTL_MAGIC_ATTRIBUTES, BTL_ABI_MAJOR, ABI_MINOR_HERE,
#ifdef BAD_ATTRIBUTES_SIZE
                   BTL_ATTRIBUTES_MIN_SIZE - 8},
#else
                   sizeof(attributes_table)},
#endif
        .flags = BTL_FLAG_PUT | BTL_FLAG_GET | BTL_FLAG_RDMA_REMOTE_COMPLETION |
                 BTL_FLAG_ATOMIC_OPS | BTL_FLAG_ATOMIC_FOPS | BTL_FLAG_RDMA_FLUSH |
                 BTL_FLAG_ATOMICS_ORDERED | BTL_FLAG_RDMA_PASSIVE_TARGET,
        .atomic_flags = BTL_ATOMIC_ADD | BTL_ATOMIC_AND | BTL_ATOMIC_OR | BTL_ATOMIC_XOR |
                        BTL_ATOMIC_LAND | BTL_ATOMIC_LOR | BTL_ATOMIC_LXOR | BTL_ATOMIC_SWAP |
                        BTL_ATOMIC_MIN | BTL_ATOMIC_MAX | BTL_ATOMIC_WORD_32 | BTL_ATOMIC_FLOAT |
                        BTL_ATOMIC_CSWAP,
        .put_limit = SIZE_MAX, .get_limit = SIZE_MAX,
        .put_local_registration_threshold = SIZE_MAX,
        .get_local_registration_threshold = SIZE_MAX,
#ifdef BAD_HANDLE_SIZE
        .handle_size = sizeof(btl_handle) + 4,
#else
        .handle_size = sizeof(btl_handle),
#endif
        .latency = 1, .bandwidth = 40000, .exclusivity = 1, .contexts = 1, .provider = "cma",
        .domain = "node",
        .completion = "the kernel copies into the target's memory before the call returns"),
#ifdef FUTURE
    .region_limit = REGION_LIMIT,
#endif
};

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
        .scope = 2,
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

#ifdef FUTURE
static uint32_t count_modules(btl_component *component)
{
    return component != NULL && component->module != NULL;
}
#endif

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
#ifdef FUTURE
    .modules = count_modules,
#endif
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
