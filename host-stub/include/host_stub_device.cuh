/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device's side of the ring of commands: a kernel puts, gets, updates and flushes windows of the
 * host, whose proxy does it (host_stub::win::Proxy). The layout is that of host_stub::device::Ring.
 *
 * The host makes the ring, maps its memory for the device (host_stub::device::Devices::map_ring) and passes
 * the address to the kernel. Any number of threads may submit, all of one device: its atomics on host memory
 * are atomic among its own threads only. Buffers are device pointers or locations from encode_location,
 * and stay untouched until a flush of their target is done. What other threads wrote there comes before
 * a command if they synchronised with the thread that submits it. Needs compute capability 7.0.
 *
 * Without CUDA (neither __CUDACC__ nor __CUDA__) the same compiles for a thread of the host, which is how it is tested.
 */
#ifndef HOST_STUB_DEVICE_CUH
#define HOST_STUB_DEVICE_CUH

#include <stdint.h>

#if defined(__CUDACC__) || defined(__CUDA__)
#ifndef __device__ /* Clang without CUDA's headers */
#define __device__ __attribute__((device))
#endif
#define HOST_STUB_FN __device__ static inline
HOST_STUB_FN unsigned long long host_stub_draw(unsigned long long *at) {
    unsigned long long value;
    asm volatile("atom.relaxed.sys.add.u64 %0, [%1], 1;" : "=l"(value) : "l"(at) : "memory");
    return value;
}
HOST_STUB_FN unsigned long long host_stub_load(const unsigned long long *at) {
    unsigned long long value;
    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}
HOST_STUB_FN void host_stub_store(unsigned long long *at, unsigned long long value) {
    asm volatile("st.release.sys.u64 [%0], %1;" : : "l"(at), "l"(value) : "memory");
}
#else
#define HOST_STUB_FN static inline
HOST_STUB_FN unsigned long long host_stub_draw(unsigned long long *at) {
    return __atomic_fetch_add(at, 1ULL, __ATOMIC_RELAXED);
}
HOST_STUB_FN unsigned long long host_stub_load(const unsigned long long *at) {
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}
HOST_STUB_FN void host_stub_store(unsigned long long *at, unsigned long long value) {
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
}
#endif

/* Commands. */
#define HOST_STUB_PUT 1
#define HOST_STUB_GET 2
#define HOST_STUB_ACCUMULATE 3
#define HOST_STUB_FETCH_OP 4
#define HOST_STUB_COMPARE_SWAP 5
#define HOST_STUB_FLUSH 6

/* What a ring begins with. */
typedef struct host_stub_ring {
    unsigned long long tickets; /* the next one */
    unsigned long long slots;   /* a power of two */
    unsigned long long unused[6];
    unsigned long long closed; /* not 0 once nobody serves it */
    unsigned long long succeeded;
    unsigned long long failed;
    unsigned long long unused_too[5];
} host_stub_ring;

/* A slot: the device's half, and the host's. */
typedef struct host_stub_slot {
    unsigned long long published; /* ticket of the command, plus one */
    unsigned long long command[7];
    unsigned long long done; /* ticket of the last command that is done, plus one */
    unsigned long long result;
    int status;
    int unused;
    unsigned long long taken; /* ticket of the last command whose answer was taken, plus one */
    unsigned long long unused_too[4];
} host_stub_slot;

/* A command; datatype has libfabric's code, op is an index in host_stub::win::Op::ALL. */
typedef struct host_stub_command {
    uint32_t kind, window, target, datatype, op;
    unsigned long long displacement, local, count, operand, compare;
} host_stub_command;

HOST_STUB_FN host_stub_slot *host_stub_slot_of(host_stub_ring *ring, unsigned long long ticket) {
    return (host_stub_slot *)(ring + 1) + (ticket & (ring->slots - 1));
}

/* Publishes a command, once its slot is free; returns its ticket, for which somebody has to wait: the
 * slot is free again only then. A thread may have as many tickets open as there are slots. */
HOST_STUB_FN unsigned long long host_stub_submit(host_stub_ring *ring, const host_stub_command *c) {
    unsigned long long ticket = host_stub_draw(&ring->tickets);
    host_stub_slot *slot = host_stub_slot_of(ring, ticket);
    while (ticket + 1 > ring->slots && host_stub_load(&slot->taken) < ticket + 1 - ring->slots) {
        if (host_stub_load(&ring->closed))
            return ticket;
    }
    slot->command[0] = c->kind | (unsigned long long)c->window << 32;
    slot->command[1] = c->target | (unsigned long long)(c->datatype | c->op << 8) << 32;
    slot->command[2] = c->displacement;
    slot->command[3] = c->local;
    slot->command[4] = c->count;
    slot->command[5] = c->operand;
    slot->command[6] = c->compare;
    host_stub_store(&slot->published, ticket + 1);
    return ticket;
}

/* What a command is answered that nobody serves any more. */
#define HOST_STUB_CLOSED (-125)

/* Waits until a command is done, and takes its answer: returns its status and, where it fetched, what
 * was there. Once for each ticket. */
HOST_STUB_FN int host_stub_wait(host_stub_ring *ring, unsigned long long ticket,
                                unsigned long long *result) {
    host_stub_slot *slot = host_stub_slot_of(ring, ticket);
    for (;;) {
        unsigned long long closed = host_stub_load(&ring->closed);
        if (host_stub_load(&slot->done) >= ticket + 1)
            break;
        if (closed)
            return HOST_STUB_CLOSED;
    }
    int status = slot->status;
    if (result)
        *result = slot->result;
    host_stub_store(&slot->taken, ticket + 1);
    return status;
}

#endif
