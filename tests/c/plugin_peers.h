/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of plugin.c about peers: their endpoints, their end, the counts, and the end of
 * their module.
 */

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

/* A process that does not exist gets NULL; bytes that are no address make the whole call fail, which then
 * adds no process. */
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
    for (size_t at = 0; status != BTL_SUCCESS && at < count; at++) {
        if (endpoints[at] != NULL)
            release_endpoint(module, endpoints[at]);
        endpoints[at] = NULL;
    }
    return status;
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
    memcpy(out, &now, out->header.size < sizeof now ? out->header.size : sizeof now);
    return BTL_SUCCESS;
}

/* Ends a module and frees its objects. */
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
