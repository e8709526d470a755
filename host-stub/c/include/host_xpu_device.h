/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions for kernels of a device. The functions write, read and update windows of the host; the host's
 * progress executes the operations.
 *
 * The functions have the names, the order of arguments and the codes of libfabric's device interface (FI_XPU,
 * rdma/fi_xpu_device.h), with host_ in front: 0 or a negative errno; -EAGAIN if a queue is full, or no operation is
 * complete yet. A rank, a displacement and a window replace the address, the remote address and the key. Parameters
 * without a meaning here are left out: descriptors (the host finds the place of a buffer), data, flags, and the
 * scope, because every thread posts for itself. Types and operations are those of host_stub.h: HOST_UINT64,
 * HOST_SUM and the other constants.
 *
 * The host makes a ring (host_device_ring_create), adds windows to the ring (host_device_ring_add_window), and passes
 * the endpoint (host_device_ring_export) and the windows to the kernel. Any number of threads of one device may call:
 * the device's atomics on host memory are atomic among its own threads only. Buffers are pointers of the device, or
 * locations from host_encode_location, and must not be accessed until the operation is complete. An operation sees
 * other threads' writes to the buffers if those threads synchronised with the thread that posts it. These functions
 * need compute capability 7.0.
 *
 * Operations complete at the target, in any order: wait for an operation before you post another that
 * depends on it.
 *
 * Without CUDA (neither __CUDACC__ nor __CUDA__) the same code compiles for a thread of the host in the place of a
 * device.
 */
#ifndef HOST_XPU_DEVICE_H
#define HOST_XPU_DEVICE_H

#include <errno.h>

#include "host_stub.h"

#if defined(__CUDACC__) || defined(__CUDA__)
#ifndef __device__ /* Clang without CUDA's headers */
#define __device__ __attribute__((device))
#endif
#define HOST_XPU_FUNC __device__ static inline
/* Increments the word if it is `old`; returns whether it did. */
HOST_XPU_FUNC bool host_xpu_draw(unsigned long long *at, unsigned long long old) {
    unsigned long long found;
    asm volatile("atom.relaxed.sys.cas.b64 %0, [%1], %2, %3;"
                 : "=l"(found)
                 : "l"(at), "l"(old), "l"(old + 1)
                 : "memory");
    return found == old;
}
HOST_XPU_FUNC unsigned long long host_xpu_load(const unsigned long long *at) {
    unsigned long long value;
    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}
HOST_XPU_FUNC void host_xpu_store(unsigned long long *at, unsigned long long value) {
    asm volatile("st.release.sys.u64 [%0], %1;" : : "l"(at), "l"(value) : "memory");
}
HOST_XPU_FUNC void host_xpu_pause(void) {}
#else
#include <sched.h>
#define HOST_XPU_FUNC static inline
HOST_XPU_FUNC bool host_xpu_draw(unsigned long long *at, unsigned long long old) {
    return __atomic_compare_exchange_n(at, &old, old + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
HOST_XPU_FUNC unsigned long long host_xpu_load(const unsigned long long *at) {
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}
HOST_XPU_FUNC void host_xpu_store(unsigned long long *at, unsigned long long value) {
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
}
/* A waiting thread of the host yields its processor to the threads that will answer; a device need not. */
HOST_XPU_FUNC void host_xpu_pause(void) { sched_yield(); }
#endif

/* The beginning of a ring: the device's half, and the host's half. host_stub::device::Ring has the
 * same layout. */
typedef struct host_xpu_ring {
    unsigned long long tickets; /* the next one */
    unsigned long long slots;   /* a power of two */
    unsigned long long unused[6];
    unsigned long long closed; /* not 0 once no process serves it */
    unsigned long long succeeded, failed;
    unsigned long long unused_too[5];
} host_xpu_ring;

/* A slot: the device's half, and the host's half. */
typedef struct host_xpu_slot {
    unsigned long long published; /* ticket of the command, plus one */
    unsigned long long command[7];
    unsigned long long done; /* ticket of the last finished command, plus one */
    unsigned long long result;
    int status;
    int unused;
    unsigned long long taken; /* ticket of the last command whose answer was taken, plus one */
    unsigned long long unused_too[4];
} host_xpu_slot;

/* Kinds of commands, and the bit of a command without a waiter. */
enum { HOST_XPU_WRITE = 1, HOST_XPU_READ, HOST_XPU_ATOMIC, HOST_XPU_FETCH, HOST_XPU_COMPARE, HOST_XPU_FLUSH };
#define HOST_XPU_UNTRACKED (1u << 31)

/* An operation under way, like libfabric's struct fi_context: it belongs to the operation until the completion was read.
 * */
typedef struct host_xpu_context_t {
    unsigned long long ticket;
    void *result;
    int datatype;
} host_xpu_context_t;

/* An element of a type in the low bytes of a word; 0 for no type, which the host refuses. */
HOST_XPU_FUNC unsigned long long host_xpu_element(const void *at, int datatype) {
    switch (datatype) {
    case HOST_INT8:
    case HOST_UINT8:
        return *(const uint8_t *)at;
    case HOST_INT16:
    case HOST_UINT16:
        return *(const uint16_t *)at;
    case HOST_INT32:
    case HOST_UINT32:
    case HOST_FLOAT:
        return *(const uint32_t *)at;
    case HOST_INT64:
    case HOST_UINT64:
    case HOST_DOUBLE:
        return *(const uint64_t *)at;
    default:
        return 0;
    }
}

HOST_XPU_FUNC void host_xpu_set_element(void *at, int datatype, unsigned long long value) {
    switch (datatype) {
    case HOST_INT8:
    case HOST_UINT8:
        *(uint8_t *)at = (uint8_t)value;
        break;
    case HOST_INT16:
    case HOST_UINT16:
        *(uint16_t *)at = (uint16_t)value;
        break;
    case HOST_INT32:
    case HOST_UINT32:
    case HOST_FLOAT:
        *(uint32_t *)at = (uint32_t)value;
        break;
    default:
        *(uint64_t *)at = value;
    }
}

HOST_XPU_FUNC host_xpu_slot *host_xpu_slot_of(host_xpu_ring *ring, unsigned long long ticket) {
    return (host_xpu_slot *)(ring + 1) + (ticket & (ring->slots - 1));
}

/* The ring of an endpoint; NULL for an endpoint that does not belong to the host. A provider's own functions
 * would begin here. */
HOST_XPU_FUNC host_xpu_ring *host_xpu_ring_of(const host_xpu_ep_t *ep) {
    return ep->prov_id == HOST_XPU_PROXY ? (host_xpu_ring *)(uintptr_t)ep->prov_ctx : NULL;
}

/* A command: its target, type and operation, and its local side. */
typedef struct host_xpu_command {
    uint32_t kind, rank, datatype, op;
    unsigned long long displacement, local, count, operand, compare;
} host_xpu_command;

/* Publishes a command in a free slot. */
HOST_XPU_FUNC int host_xpu_post(const host_xpu_ep_t *ep, host_xpu_win_t win, const host_xpu_command *c,
                                host_xpu_context_t *context) {
    host_xpu_ring *ring = host_xpu_ring_of(ep);
    if (!ring)
        return -ENOSYS;
    /* An invalid type or operation stays invalid. */
    uint32_t datatype = c->datatype < 0xff ? c->datatype : 0xff, op = c->op < 0xffff ? c->op : 0xffff;
    unsigned long long ticket, mark = context ? 0 : HOST_XPU_UNTRACKED;
    host_xpu_slot *slot;
    do {
        if (host_xpu_load(&ring->closed))
            return -ECANCELED;
        ticket = host_xpu_load(&ring->tickets);
        slot = host_xpu_slot_of(ring, ticket);
        if (ticket + 1 > ring->slots && host_xpu_load(&slot->taken) < ticket + 1 - ring->slots) {
            host_xpu_pause();
            return -EAGAIN;
        }
    } while (!host_xpu_draw(&ring->tickets, ticket));
    slot->command[0] = c->kind | mark | (unsigned long long)win.number << 32;
    slot->command[1] = c->rank | (unsigned long long)(datatype | op << 8) << 32;
    slot->command[2] = c->displacement;
    slot->command[3] = c->local;
    slot->command[4] = c->count;
    slot->command[5] = c->operand;
    slot->command[6] = c->compare;
    if (context)
        context->ticket = ticket;
    host_xpu_store(&slot->published, ticket + 1);
    return 0;
}

HOST_XPU_FUNC int host_xpu_transfer(const host_xpu_ep_t *ep, uint32_t kind, const void *buf, size_t count, int rank,
                                    uint64_t displacement, host_xpu_win_t win, int datatype, int op,
                                    host_xpu_context_t *context) {
    host_xpu_command c = {};
    c.kind = kind;
    c.rank = (uint32_t)rank;
    c.datatype = (uint32_t)datatype;
    c.op = (uint32_t)op;
    c.displacement = displacement;
    c.local = (unsigned long long)(uintptr_t)buf;
    c.count = count;
    if (context)
        context->result = NULL;
    return host_xpu_post(ep, win, &c, context);
}

/* Writes `len` bytes at `buf` to a window. Without a context no thread reads the completion: a later flush
 * reports it. */
HOST_XPU_FUNC int host_xpu_write(const host_xpu_ep_t *ep, const void *buf, size_t len, int rank,
                                 uint64_t displacement, host_xpu_win_t win, host_xpu_context_t *context) {
    return host_xpu_transfer(ep, HOST_XPU_WRITE, buf, len, rank, displacement, win, HOST_UINT8, 0, context);
}

/* Reads `len` bytes of a window to `buf`. */
HOST_XPU_FUNC int host_xpu_read(const host_xpu_ep_t *ep, void *buf, size_t len, int rank, uint64_t displacement,
                                host_xpu_win_t win, host_xpu_context_t *context) {
    return host_xpu_transfer(ep, HOST_XPU_READ, buf, len, rank, displacement, win, HOST_UINT8, 0, context);
}

/* Updates `count` elements of a window with those at `buf`. */
HOST_XPU_FUNC int host_xpu_atomic(const host_xpu_ep_t *ep, const void *buf, size_t count, int rank,
                                  uint64_t displacement, host_xpu_win_t win, int datatype, int op,
                                  host_xpu_context_t *context) {
    return host_xpu_transfer(ep, HOST_XPU_ATOMIC, buf, count, rank, displacement, win, datatype, op, context);
}

HOST_XPU_FUNC int host_xpu_fetching(const host_xpu_ep_t *ep, host_xpu_command *c, int rank, uint64_t displacement,
                                    host_xpu_win_t win, int datatype, void *result, host_xpu_context_t *context) {
    if (!context || !result)
        return -EINVAL;
    c->rank = (uint32_t)rank;
    c->datatype = (uint32_t)datatype;
    c->displacement = displacement;
    context->result = result;
    context->datatype = datatype;
    return host_xpu_post(ep, win, c, context);
}

/* Updates one element of a window with the element at `buf`, which is read at once; the old element is at `result`
 * after this thread has read the completion. */
HOST_XPU_FUNC int host_xpu_fetch_atomic(const host_xpu_ep_t *ep, const void *buf, void *result, int rank,
                                        uint64_t displacement, host_xpu_win_t win, int datatype, int op,
                                        host_xpu_context_t *context) {
    host_xpu_command c = {};
    c.kind = HOST_XPU_FETCH;
    c.op = (uint32_t)op;
    c.operand = host_xpu_element(buf, datatype);
    return host_xpu_fetching(ep, &c, rank, displacement, win, datatype, result, context);
}

/* Replaces one element of a window by the element at `buf` if it equals the element at `compare`;
 * otherwise as host_xpu_fetch_atomic. Integers only. */
HOST_XPU_FUNC int host_xpu_compare_atomic(const host_xpu_ep_t *ep, const void *buf, const void *compare,
                                          void *result, int rank, uint64_t displacement, host_xpu_win_t win,
                                          int datatype, host_xpu_context_t *context) {
    host_xpu_command c = {};
    c.kind = HOST_XPU_COMPARE;
    c.operand = host_xpu_element(buf, datatype);
    c.compare = host_xpu_element(compare, datatype);
    return host_xpu_fetching(ep, &c, rank, displacement, win, datatype, result, context);
}

/* Completes when all operations posted before to a rank of a window are complete; fails if one without a context
 * failed. libfabric has no such function: a completion counter takes its place there. */
HOST_XPU_FUNC int host_xpu_flush(const host_xpu_ep_t *ep, int rank, host_xpu_win_t win,
                                 host_xpu_context_t *context) {
    return host_xpu_transfer(ep, HOST_XPU_FLUSH, NULL, 0, rank, 0, win, HOST_UINT8, 0, context);
}

/* Reads the completion of an operation, once: 1, -EAGAIN while it is under way, or the code of its failure;
 * -ECANCELED if no process serves the ring any more. */
HOST_XPU_FUNC int host_xpu_cq_read(const host_xpu_ep_t *ep, host_xpu_context_t *context) {
    host_xpu_ring *ring = host_xpu_ring_of(ep);
    if (!ring)
        return -ENOSYS;
    unsigned long long ticket = context->ticket;
    host_xpu_slot *slot = host_xpu_slot_of(ring, ticket);
    /* Read before the slot, because a ring is closed after its last answer. */
    unsigned long long closed = host_xpu_load(&ring->closed);
    if (host_xpu_load(&slot->done) < ticket + 1)
        return closed ? -ECANCELED : -EAGAIN;
    int status = slot->status;
    if (status == 0 && context->result)
        host_xpu_set_element(context->result, context->datatype, slot->result);
    host_xpu_store(&slot->taken, ticket + 1);
    return status < 0 ? status : 1;
}

/* As host_xpu_cq_read, but waits while the operation is under way. */
HOST_XPU_FUNC int host_xpu_cq_sread(const host_xpu_ep_t *ep, host_xpu_context_t *context) {
    int read;
    while ((read = host_xpu_cq_read(ep, context)) == -EAGAIN)
        host_xpu_pause();
    return read;
}

/* The number of succeeded operations of all threads. */
HOST_XPU_FUNC uint64_t host_xpu_cntr_read(const host_xpu_ep_t *ep) {
    host_xpu_ring *ring = host_xpu_ring_of(ep);
    return ring ? host_xpu_load(&ring->succeeded) : 0;
}

/* The number of failed operations of all threads. */
HOST_XPU_FUNC uint64_t host_xpu_cntr_readerr(const host_xpu_ep_t *ep) {
    host_xpu_ring *ring = host_xpu_ring_of(ep);
    return ring ? host_xpu_load(&ring->failed) : 0;
}

#endif
