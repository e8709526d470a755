/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An example: device memory through the header alone. One process makes a "device": memory that may
 * not be accessed at its address (PROT_NONE), and that a second mapping makes readable. The process
 * gives the plugin copy functions, registers the memory, and puts, gets and adds to itself there.
 *
 *   device PLUGIN [NAME=VALUE]...      e.g. device libbtl_ofi.so btl_ofi_provider_include=shm
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/mman.h>

#include "services.h"

#define BYTES 65536

static char *device, *shadow;
static struct host host;

static void need(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "device: %s\n", what);
        exit(1);
    }
}

/* The readable address of a byte of the device; for host memory, the byte itself. */
static char *reach(char *at, uint32_t iface)
{
    return iface == BTL_HMEM_SYSTEM ? at : shadow + (at - device);
}

static ssize_t copy(char *flat, size_t size, const struct iovec *iov, const uint32_t *iface,
                    size_t count, uint64_t offset, int out)
{
    size_t done = 0;
    for (size_t run = 0; run < count && done < size; run++) {
        size_t left = iov[run].iov_len, n;
        if (iface[run] != BTL_HMEM_SYSTEM && iface[run] != BTL_HMEM_CUDA)
            return -ENOSYS;
        if (offset >= left) {
            offset -= left;
            continue;
        }
        n = left - offset < size - done ? left - offset : size - done;
        char *at = reach((char *)iov[run].iov_base + offset, iface[run]);
        memcpy(out ? flat + done : at, out ? at : flat + done, n);
        done += n;
        offset = 0;
    }
    return (ssize_t)done;
}

static ssize_t copy_from(void *dest, size_t size, const struct iovec *iov, const uint32_t *iface,
                         size_t count, uint64_t offset)
{
    return copy(dest, size, iov, iface, count, offset, 1);
}

static ssize_t copy_to(const struct iovec *iov, const uint32_t *iface, size_t count,
                       uint64_t offset, const void *src, size_t size)
{
    return copy((char *)(uintptr_t)src, size, iov, iface, count, offset, 0);
}

int main(int argc, char **argv)
{
    const btl_override_ops ops = {.header = BTL_TABLE_HEADER(btl_override_ops, BTL_MAGIC_OVERRIDES),
                                  .copy_from_hmem_iov = copy_from, .copy_to_hmem_iov = copy_to};
    const uint32_t access = BTL_ACCESS_LOCAL_WRITE | BTL_ACCESS_REMOTE_READ |
                            BTL_ACCESS_REMOTE_WRITE | BTL_ACCESS_REMOTE_ATOMIC;
    const btl_component_vtable *component;
    const btl_module_vtable *call;
    btl_component *instance;
    btl_module *module;
    btl_endpoint *self;
    btl_handle *handle;
    size_t count = 1;
    uint64_t proc = 0, found = 0;
    alarm(60);
    need(argc > 1, "usage: device PLUGIN [NAME=VALUE]...");
    host.settings = argv + 2;

    int fd = memfd_create("device", 0);
    need(fd >= 0 && ftruncate(fd, BYTES) == 0, "no memory");
    device = mmap(NULL, BYTES, PROT_NONE, MAP_SHARED, fd, 0);
    shadow = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    need(device != MAP_FAILED && shadow != MAP_FAILED, "no mapping");

    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    need(library != NULL, "the plugin cannot be opened");
    btl_entry_fn entry;
    *(void **)&entry = dlsym(library, BTL_ENTRY_SYMBOL);
    need(entry && entry(host_table(&host), &component) == BTL_SUCCESS, "no plugin");
    need(component->register_params(host_table(&host)) == BTL_SUCCESS, "parameters");
    need(component->open(host_table(&host), &instance) == BTL_SUCCESS, "open");
    need(component->init(instance, BTL_THREAD_SINGLE, &module, &count) == BTL_SUCCESS, "init");
    call = module->vtable;
    need(BTL_TABLE_HOLDS(call, btl_module_vtable, query_hmem) && call->set_overrides,
         "the plugin knows of no device memory");
    need(call->add_procs(module, 1, &proc, &self) == BTL_SUCCESS && self, "no way to myself");

    need(call->set_overrides(module, &ops) == BTL_SUCCESS, "set_overrides");
    need(call->register_hmem(module, NULL, device, BYTES, access, BTL_HMEM_CUDA, 0, &handle) ==
             BTL_SUCCESS, "register_hmem");

    /* Puts from one place of the device to another, and adds there. */
    strcpy(shadow, "from one end to the other");
    need(call->put(module, self, device, (uintptr_t)device + BYTES / 2, handle, handle, 32, 0,
                   BTL_NO_ORDER, NULL, NULL, NULL) == BTL_SUCCESS, "put");
    need(call->flush(module, self) == BTL_SUCCESS, "flush");
    need(strcmp(shadow + BYTES / 2, "from one end to the other") == 0, "the text did not arrive");
    for (int i = 0; i < 3; i++)
        need(call->atomic_op(module, self, (uintptr_t)device + 4096, handle, BTL_OP_ADD, 14, 0,
                             BTL_NO_ORDER, NULL, NULL, NULL) == BTL_SUCCESS, "atomic_op");
    need(call->flush(module, self) == BTL_SUCCESS, "flush");
    need(call->get(module, self, &found, (uintptr_t)device + 4096, NULL, handle, 8, 0,
                   BTL_NO_ORDER, NULL, NULL, NULL) == BTL_SUCCESS, "get");
    need(call->flush(module, self) == BTL_SUCCESS, "flush");
    need(found == 42, "the sum is wrong");

    /* A put beyond the device's end, or without a handle, accesses no memory. */
    need(call->put(module, self, device, (uintptr_t)device + BYTES - 8, handle, handle, 32, 0,
                   BTL_NO_ORDER, NULL, NULL, NULL) == BTL_SUCCESS, "the owner looks at bounds");
    need(call->flush(module, self) != BTL_SUCCESS, "a put beyond the end succeeded");
    need(call->put(module, self, device + BYTES - 8, (uintptr_t)device, handle, handle, 32, 0,
                   BTL_NO_ORDER, NULL, NULL, NULL) == BTL_VALUE_OUT_OF_BOUNDS, "local bounds");

    need(call->deregister_mem(module, handle) == BTL_SUCCESS, "deregister_mem");
    need(call->finalize(module) == BTL_SUCCESS, "finalize");
    need(component->close(instance) == BTL_SUCCESS, "close");
    printf("device: put, sum and get over copies: all as it should be\n");
    return 0;
}
