/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A complete transport plugin in C, through btl_plugin.h alone: component "cma". The plugin connects
 * the processes of its own node, itself included. Puts and gets are the kernel's cross-process
 * copies. An atomic reads, changes and writes back under the target's lock, so it is atomic with
 * respect to other atomics, but not to the target's processor (no BTL_ATOMIC_GLOB). Every operation
 * is complete when its call returns; its callback waits in a queue for progress or flush, as with a
 * real device.
 *
 * Without macros, this is a valid plugin of ABI 1.1; with -DFUTURE, a plugin of ABI 1.2; with
 * -DWANTS_REGISTRATION, a plugin that puts and gets only from and to registered memory. One of these
 * makes it one that a loader must refuse: -DBAD_MAGIC -DBAD_MAJOR -DBAD_SIZE -DBAD_ENTRY the
 * component's table -DBAD_MODULE_MAJOR -DBAD_MODULE_ENTRY the module's table -DBAD_ATTRIBUTES_SIZE
 * -DBAD_HANDLE_SIZE the attributes -DNO_SYMBOL -DNO_TABLE -DREFUSES_HOST the exported function
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "btl_plugin.h"
#include "element.h"
#include "future.h"
#include "peer.h"

#define MODEX_KEY "btl_cma"
#define ATOMIC_BYTES 4096 /* of one typed atomic */
#ifdef WANTS_REGISTRATION
#define THRESHOLD 0
#else
#define THRESHOLD SIZE_MAX /* bytes that need no local registration */
#endif
#define ACCESS_ALL                                                                 \
    (BTL_ACCESS_LOCAL_WRITE | BTL_ACCESS_REMOTE_READ | BTL_ACCESS_REMOTE_WRITE | \
     BTL_ACCESS_REMOTE_ATOMIC)

/* A registration; peers get its bytes. */
struct btl_handle {
    uint64_t base;
    uint64_t size;
    uint64_t serial; /* in the owner's segment while the registration lives */
    uint32_t slot;
    uint32_t access;
};

struct btl_endpoint {
    struct btl_endpoint *next;
    btl_module *module;
    struct peer peer;
    uint64_t proc;
    size_t references;
};

/* A completed operation whose callback has not returned yet. */
struct completion {
    struct completion *next;
    uint64_t number;
    bool running;
    btl_endpoint *endpoint;
    void *local_address;
    btl_handle *local_handle;
    btl_completion_fn callback;
    void *context;
    void *data;
    btl_status status;
    uint64_t due; /* monotonic nanoseconds before which the callback does not run */
};

struct module {
    btl_module public; /* first: the host's pointer points here */
    btl_attributes *attributes;
    struct btl_component *component;
    pthread_mutex_t lock; /* protects everything below except the counts; never held in a callback */
    struct segment *segment;
    struct address address;
    struct btl_endpoint *endpoints;
    btl_handle *handles[REGION_LIMIT];
    uint64_t next_serial;
    struct completion *oldest, **newest;
    uint64_t next_number;
    size_t waiting;
    btl_error_fn error_callback;
    void *error_context;
    btl_apply_fn arithmetic; /* set before the first apply */
    void *arithmetic_context;
    _Atomic uint64_t posted, completed, failed, again;
};

struct btl_component {
    const btl_host_vtable *host;
    struct module *module;
    uint64_t queue_depth;
    uint64_t delay; /* nanoseconds from an operation to its callback: CMA_DELAY_US, for measuring waits */
    uint64_t breaking; /* CMA_BREAKING_BYTES: progress fails from an operation of this size on */
    _Atomic bool broken;
    _Atomic uint32_t calls; /* calls of progress, for checking now and then whether peers have ended */
};

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t due(const struct btl_component *component)
{
    return component->delay == 0 ? 0 : now() + component->delay;
}

static struct module *inside(btl_module *module)
{
    return (struct module *)module;
}

__attribute__((format(printf, 3, 4))) static void
say(const btl_host_vtable *host, uint32_t level, const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    host->log(host->context, level, line, strlen(line));
}

/* ---- Completions ---------------------------------------------------------------------------- */

/* Queues the callback of a completed operation; without a queue or a callback, reports the
 * operation as completed. The caller has called has_room. */
static btl_status complete(struct module *module, struct completion *completion)
{
    atomic_fetch_add(&module->posted, 1);
    if (completion == NULL) {
        atomic_fetch_add(&module->completed, 1);
        return BTL_COMPLETED;
    }
    pthread_mutex_lock(&module->lock);
    completion->number = module->next_number++;
    *module->newest = completion;
    module->newest = &completion->next;
    pthread_mutex_unlock(&module->lock);
    return BTL_SUCCESS;
}

/* Runs the callback of the oldest completion that no thread runs yet; returns whether there
 * was one. */
static bool run_one(struct module *module)
{
    struct completion **link, *completion;
    pthread_mutex_lock(&module->lock);
    completion = module->oldest;
    while (completion != NULL && completion->running)
        completion = completion->next;
    if (completion != NULL && completion->due != 0 && now() < completion->due)
        completion = NULL; /* the oldest completion is due first */
    if (completion != NULL) {
        completion->running = true;
        module->waiting--; /* before the callback, which may issue the next operation */
    }
    pthread_mutex_unlock(&module->lock);
    if (completion == NULL)
        return false;

    completion->callback(&module->public, completion->endpoint, completion->local_address,
                         completion->local_handle, completion->context, completion->data,
                         completion->status);
    atomic_fetch_add(completion->status == BTL_SUCCESS ? &module->completed : &module->failed, 1);

    pthread_mutex_lock(&module->lock);
    for (link = &module->oldest; *link != completion; link = &(*link)->next)
        ;
    *link = completion->next;
    if (module->newest == &completion->next)
        module->newest = link;
    pthread_mutex_unlock(&module->lock);
    free(completion);
    return true;
}

/* Waits for every callback numbered below `end`, of `endpoint` or of all endpoints. */
static void drain(struct module *module, btl_endpoint *endpoint, uint64_t end)
{
    for (;;) {
        struct completion *completion;
        bool pending = false;
        pthread_mutex_lock(&module->lock);
        for (completion = module->oldest; completion != NULL; completion = completion->next)
            if (completion->number < end && (endpoint == NULL || completion->endpoint == endpoint))
                pending = true;
        pthread_mutex_unlock(&module->lock);
        if (!pending)
            return;
        if (!run_one(module))
            sched_yield(); /* another thread is inside the callback */
    }
}

/* Reserves a completion for an operation that is about to be executed. */
static btl_status reserve(struct module *module, btl_endpoint *endpoint, void *local_address,
                          btl_handle *local_handle, btl_completion_fn callback, void *context,
                          void *data, struct completion **out)
{
    btl_status status = BTL_SUCCESS;
    *out = NULL;
    if (callback == NULL || module->component->queue_depth == 0)
        return status;
    pthread_mutex_lock(&module->lock);
    if (module->waiting >= module->component->queue_depth)
        status = BTL_TEMP_OUT_OF_RESOURCE;
    else
        module->waiting++;
    pthread_mutex_unlock(&module->lock);
    if (status == BTL_SUCCESS && (*out = malloc(sizeof **out)) == NULL) {
        pthread_mutex_lock(&module->lock);
        module->waiting--;
        pthread_mutex_unlock(&module->lock);
        status = BTL_OUT_OF_RESOURCE;
    }
    if (status != BTL_SUCCESS) {
        atomic_fetch_add(&module->again, 1);
        return status;
    }
    **out = (struct completion){.endpoint = endpoint,
                                .local_address = local_address,
                                .local_handle = local_handle,
                                .callback = callback,
                                .context = context,
                                .data = data,
                                .status = BTL_SUCCESS,
                                .due = due(module->component)};
    return status;
}

static void release(struct module *module, struct completion *completion)
{
    if (completion == NULL)
        return;
    pthread_mutex_lock(&module->lock);
    module->waiting--;
    pthread_mutex_unlock(&module->lock);
    free(completion);
}

/* Ends an operation whose copy returned `status`. */
static btl_status settle(struct module *module, struct completion *completion, btl_status status)
{
    if (status == BTL_SUCCESS)
        return complete(module, completion);
    release(module, completion);
    return status;
}

/* ---- Memory --------------------------------------------------------------------------------- */

static btl_status register_mem(btl_module *public, btl_endpoint *endpoint, void *base, size_t size,
                               uint32_t access, btl_handle **out)
{
    struct module *module = inside(public);
    btl_handle *handle;
    uint32_t slot = 0;
    (void)endpoint;
    if (module == NULL || out == NULL || (base == NULL && size != 0) || (access & ~ACCESS_ALL) ||
        (uintptr_t)base + size < (uintptr_t)base)
        return BTL_BAD_PARAM;
    handle = malloc(sizeof *handle);
    if (handle == NULL)
        return BTL_OUT_OF_RESOURCE;
    pthread_mutex_lock(&module->lock);
    while (slot < REGION_LIMIT && module->handles[slot] != NULL)
        slot++;
    if (slot < REGION_LIMIT) {
        *handle = (btl_handle){(uintptr_t)base, size, ++module->next_serial, slot, access};
        module->handles[slot] = handle;
        atomic_store(&module->segment->serial[slot], handle->serial);
    }
    pthread_mutex_unlock(&module->lock);
    if (slot == REGION_LIMIT) {
        free(handle);
        return BTL_OUT_OF_RESOURCE;
    }
    *out = handle;
    return BTL_SUCCESS;
}

/* The slot of a living handle; -1 if there is none. The handle itself is not read, because it
 * may be freed. */
static int slot_of(struct module *module, const btl_handle *handle)
{
    for (int slot = 0; slot < REGION_LIMIT; slot++)
        if (module->handles[slot] == handle)
            return slot;
    return -1;
}

static btl_status deregister_mem(btl_module *public, btl_handle *handle)
{
    struct module *module = inside(public);
    int slot;
    if (module == NULL || handle == NULL)
        return BTL_BAD_PARAM;
    pthread_mutex_lock(&module->lock);
    slot = slot_of(module, handle);
    if (slot >= 0) {
        module->handles[slot] = NULL;
        atomic_store(&module->segment->serial[slot], 0);
    }
    pthread_mutex_unlock(&module->lock);
    if (slot < 0)
        return BTL_BAD_PARAM;
    free(handle);
    return BTL_SUCCESS;
}

static btl_status within(const btl_handle *handle, uint64_t address, size_t size)
{
    uint64_t offset = address - handle->base;
    return address >= handle->base && offset <= handle->size && size <= handle->size - offset
               ? BTL_SUCCESS
               : BTL_VALUE_OUT_OF_BOUNDS;
}

/* Checks the local memory. A handle is needed only over the threshold, but a given handle must cover the
 * memory. */
static btl_status check_local(struct module *module, btl_handle *handle, const void *address,
                              size_t size)
{
    btl_status status = BTL_BAD_PARAM;
    if (address == NULL && size != 0)
        return BTL_BAD_PARAM;
    if (handle == NULL)
        return size > THRESHOLD ? BTL_BAD_PARAM : BTL_SUCCESS;
    pthread_mutex_lock(&module->lock);
    if (slot_of(module, handle) >= 0)
        status = within(handle, (uintptr_t)address, size);
    pthread_mutex_unlock(&module->lock);
    return status;
}

/* Checks the peer, and compares its memory with the registration that its owner still
 * has. */
static btl_status check_remote(struct module *module, btl_endpoint *endpoint,
                               const btl_handle *handle, uint64_t address, size_t size,
                               uint32_t access)
{
    if (module == NULL || endpoint == NULL || handle == NULL ||
        endpoint->module != &module->public || handle->slot >= REGION_LIMIT)
        return BTL_BAD_PARAM;
    if (endpoint->peer.gone || peer_ended(&endpoint->peer))
        return BTL_UNREACH;
    if (handle->serial == 0 ||
        atomic_load(&endpoint->peer.segment->serial[handle->slot]) != handle->serial)
        return BTL_BAD_PARAM;
    if ((handle->access & access) != access)
        return BTL_PERM;
    return within(handle, address, size);
}

#include "plugin_operations.h"
#include "plugin_apply.h"
#include "plugin_peers.h"
#include "plugin_tables.h"
#include "plugin_component.h"
