/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copy functions for memory that the provider accesses itself, over the fake of CUDA and a
 * provider that accepts overrides (lab). First one function alone is set, then both, then none.
 * The provider calls the user's function. In place of an absent function, the provider calls the
 * transport's, which uses CUDA's driver.
 *
 *   one_override PLUGIN
 */
#include <dlfcn.h>

#include "fake_cuda.h"
#include "services.h"

#define BYTES 4096

static struct host host;
static char *device, *shadow;
static unsigned from_calls, to_calls;

static void need(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "one_override: %s\n", what);
        exit(1);
    }
}

/* The user's functions, which copy through the second mapping of the pages, without the
 * driver. */
static ssize_t copy(char *flat, size_t size, const struct iovec *iov, const uint32_t *iface,
                    uint64_t offset, int out)
{
    char *at = (char *)iov->iov_base + offset;
    if (*iface == BTL_HMEM_SYSTEM)
        return -ENOSYS;
    at = shadow + (at - device);
    memcpy(out ? flat : at, out ? at : flat, size);
    return (ssize_t)size;
}

static ssize_t copy_from(void *dest, size_t size, const struct iovec *iov, const uint32_t *iface,
                         size_t count, uint64_t offset)
{
    from_calls++;
    return count == 1 ? copy(dest, size, iov, iface, offset, 1) : -EINVAL;
}

static ssize_t copy_to(const struct iovec *iov, const uint32_t *iface, size_t count,
                       uint64_t offset, const void *src, size_t size)
{
    to_calls++;
    return count == 1 ? copy((char *)(uintptr_t)src, size, iov, iface, offset, 0) : -EINVAL;
}

static CUdeviceptr allocate(void *cuda)
{
    CUresult (*init)(unsigned), (*retain)(CUcontext *, CUdevice), (*push)(CUcontext);
    CUresult (*alloc)(CUdeviceptr *, size_t), (*pop)(CUcontext *);
    CUcontext context;
    CUdeviceptr at;
    *(void **)&init = dlsym(cuda, "cuInit");
    *(void **)&retain = dlsym(cuda, "cuDevicePrimaryCtxRetain");
    *(void **)&push = dlsym(cuda, "cuCtxPushCurrent_v2");
    *(void **)&pop = dlsym(cuda, "cuCtxPopCurrent_v2");
    *(void **)&alloc = dlsym(cuda, "cuMemAlloc_v2");
    need(!init(0) && !retain(&context, 0) && !push(context), "no context");
    need(!alloc(&at, BYTES) && !pop(&context), "no memory of the device");
    return at;
}

static void release(void *cuda, CUdeviceptr at)
{
    CUresult (*retain)(CUcontext *, CUdevice), (*push)(CUcontext), (*pop)(CUcontext *);
    CUresult (*give_back)(CUdeviceptr);
    CUcontext context;
    *(void **)&retain = dlsym(cuda, "cuDevicePrimaryCtxRetain");
    *(void **)&push = dlsym(cuda, "cuCtxPushCurrent_v2");
    *(void **)&pop = dlsym(cuda, "cuCtxPopCurrent_v2");
    *(void **)&give_back = dlsym(cuda, "cuMemFree_v2");
    need(!retain(&context, 0) && !push(context) && !give_back(at) && !pop(&context), "free");
}

struct calls {
    btl_module *module;
    btl_endpoint *self;
    unsigned long long (*copies)(void);
};

/* Makes a put to the device and a get from there; checks which of them the user's functions made,
 * and which the driver. */
static void transfer(const struct calls *c, btl_handle *handle, unsigned user_from, unsigned user_to,
                     unsigned by_driver)
{
    const btl_module_vtable *call = c->module->vtable;
    static uint64_t value = 1000;
    uint64_t got[8] = {0}, sent[8];
    unsigned long long before = c->copies();
    from_calls = to_calls = 0;
    value++;
    for (int i = 0; i < 8; i++)
        sent[i] = value + (uint64_t)i;
    need(call->put(c->module, c->self, sent, (uintptr_t)device, NULL, handle, sizeof sent, 0,
                   BTL_NO_ORDER, NULL, NULL, NULL) >= BTL_SUCCESS, "put");
    need(call->flush(c->module, c->self) == BTL_SUCCESS, "flush of the put");
    need(memcmp(shadow, sent, sizeof sent) == 0, "the put's data");
    need(call->get(c->module, c->self, got, (uintptr_t)device, NULL, handle, sizeof got, 0,
                   BTL_NO_ORDER, NULL, NULL, NULL) >= BTL_SUCCESS, "get");
    need(call->flush(c->module, c->self) == BTL_SUCCESS, "flush of the get");
    need(memcmp(got, sent, sizeof sent) == 0, "the get's data");
    need(from_calls == user_from && to_calls == user_to, "the calls of the user's functions");
    need(c->copies() - before == by_driver, "the copies by the driver");
}

/* Sets a table; returns the provider's answer. */
static int set(const struct calls *c, btl_copy_from_fn from, btl_copy_to_fn to)
{
    btl_override_ops ops = {.header = BTL_TABLE_HEADER(btl_override_ops, BTL_MAGIC_OVERRIDES),
                            .copy_from_hmem_iov = from, .copy_to_hmem_iov = to};
    btl_hmem_info info = {.header = BTL_TABLE_HEADER(btl_hmem_info, BTL_MAGIC_HMEM_INFO)};
    const btl_module_vtable *call = c->module->vtable;
    need(call->set_overrides(c->module, &ops) == BTL_SUCCESS, "set_overrides");
    need(call->query_hmem(c->module, BTL_HMEM_CUDA, &info) == BTL_SUCCESS, "query_hmem");
    return info.answer;
}

static btl_handle *direct(const struct calls *c, uint32_t iface)
{
    const uint32_t access = BTL_ACCESS_REMOTE_READ | BTL_ACCESS_REMOTE_WRITE;
    btl_hmem_info info = {.header = BTL_TABLE_HEADER(btl_hmem_info, BTL_MAGIC_HMEM_INFO)};
    const btl_module_vtable *call = c->module->vtable;
    btl_handle *handle;
    need(call->register_hmem(c->module, NULL, device, BYTES, access, iface, 0, &handle) ==
             BTL_SUCCESS, "register_hmem");
    need(call->query_hmem(c->module, iface, &info) == BTL_SUCCESS && info.direct == 1, "direct");
    return handle;
}

static void check(const struct calls *c)
{
    const btl_module_vtable *call = c->module->vtable;
    btl_handle *handle;
    /* For a kind that the transport cannot copy, the provider keeps its own functions and uses
     * both. */
    handle = direct(c, BTL_HMEM_ROCR);
    need(set(c, copy_from, NULL) == -ENOSYS, "one function was offered for ROCm");
    transfer(c, handle, 0, 0, 0);
    need(call->deregister_mem(c->module, handle) == BTL_SUCCESS, "deregister_mem");

    need(set(c, NULL, NULL) == BTL_OVERRIDES_NONE_SET, "an answer to nothing");
    handle = direct(c, BTL_HMEM_CUDA);
    transfer(c, handle, 0, 0, 0);
    need(set(c, copy_from, NULL) == 0, "one function was not taken");
    transfer(c, handle, 1, 0, 1);
    need(set(c, NULL, copy_to) == 0, "the other function was not taken");
    transfer(c, handle, 0, 1, 1);
    need(set(c, copy_from, copy_to) == 0, "both functions were not taken");
    transfer(c, handle, 1, 1, 0);
    need(set(c, NULL, NULL) == BTL_OVERRIDES_NONE_SET, "an answer to nothing");
    transfer(c, handle, 0, 0, 2);
    need(call->put(c->module, c->self, device + BYTES - 8, (uintptr_t)device, handle, handle, 32, 0,
                   BTL_NO_ORDER, NULL, NULL, NULL) == BTL_VALUE_OUT_OF_BOUNDS, "local bounds");
    need(call->deregister_mem(c->module, handle) == BTL_SUCCESS, "deregister_mem");

    /* Now neither the provider nor the transport has functions for ROCm. */
    need(call->register_hmem(c->module, NULL, device, BYTES, BTL_ACCESS_REMOTE_READ, BTL_HMEM_ROCR,
                             0, &handle) == BTL_NOT_SUPPORTED, "ROCm without functions");
}

int main(int argc, char **argv)
{
    const btl_component_vtable *component;
    btl_component *instance;
    struct calls calls;
    char *(*reached)(CUdeviceptr), shift[32];
    size_t count = 1;
    uint64_t proc = 0;
    alarm(60);
    need(argc > 1, "usage: one_override PLUGIN [NAME=VALUE]...");
    host.settings = argv + 2;
    void *cuda = dlopen("libcuda.so", RTLD_NOW);
    need(cuda != NULL, "no fake of CUDA");
    *(void **)&calls.copies = dlsym(cuda, "fake_cuda_copies");
    *(void **)&reached = dlsym(cuda, "fake_cuda_reached");
    need(calls.copies && reached, "this is no fake of CUDA");
    CUdeviceptr at = allocate(cuda);
    device = (char *)(uintptr_t)at;
    shadow = reached(at);
    /* The variable tells the provider how to access the memory by itself. */
    snprintf(shift, sizeof shift, "%lld", (long long)(shadow - device));
    setenv("LAB_HMEM_SHIFT", shift, 1);

    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    need(library != NULL, "the plugin cannot be opened");
    btl_entry_fn entry;
    *(void **)&entry = dlsym(library, BTL_ENTRY_SYMBOL);
    need(entry && entry(host_table(&host), &component) == BTL_SUCCESS, "no plugin");
    need(component->register_params(host_table(&host)) == BTL_SUCCESS, "parameters");
    need(component->open(host_table(&host), &instance) == BTL_SUCCESS, "open");
    need(component->init(instance, BTL_THREAD_SINGLE, &calls.module, &count) == BTL_SUCCESS, "init");
    const btl_module_vtable *call = calls.module->vtable;
    need(call->add_procs(calls.module, 1, &proc, &calls.self) == BTL_SUCCESS && calls.self, "self");
    check(&calls);
    need(call->finalize(calls.module) == BTL_SUCCESS, "finalize");
    need(component->close(instance) == BTL_SUCCESS, "close");
    release(cuda, at);
    printf("one_override: all as it should be\n");
    return 0;
}
