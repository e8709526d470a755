/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels with which the device suite tries operations that a device starts. `started.ptx` is made of
 * them, and a test compares:
 *
 *   clang++ -x cuda --cuda-device-only --cuda-gpu-arch=sm_70 -nocudainc -nocudalib -O2 -S \
 *       -I host-stub/c/include -o host-stub/cuda/started.ptx host-stub/cuda/started.cu
 *
 * As C they are functions of the host, which the tests' fake of CUDA calls in threads.
 */
#include "host_xpu_device.h"

#if defined(__CUDA__) && !defined(__global__)
#define __global__ __attribute__((global))
#endif
#if defined(__CUDACC__) || defined(__CUDA__)
#define KERNEL extern "C" __global__ void
/* The number of this thread among all of the kernel. */
HOST_XPU_FUNC unsigned number_of_thread(void) {
    unsigned thread, block, threads;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    asm volatile("mov.u32 %0, %%ntid.x;" : "=r"(threads));
    return block * threads + thread;
}
#else
#define KERNEL void
static unsigned number_of_thread(void); /* the fake's */
#endif

/* What came of an operation that was posted. */
HOST_XPU_FUNC unsigned long long ended(const host_xpu_ep_t *ep, int posted, host_xpu_context_t *context) {
    return (unsigned long long)(long long)(posted < 0 ? posted : host_xpu_cq_sread(ep, context));
}

/* Puts four words at `local` to the target's first ones, adds 7 to the first, and gets the four back
 * behind those at `local`. `answers`, in host memory: what came of each, what was fetched, and the counters. */
KERNEL host_stub_started(host_xpu_ep_t ep, host_xpu_win_t win, int target, unsigned long long local,
                         unsigned long long *answers) {
    char *here = (char *)(uintptr_t)local;
    unsigned long long seven = 7, fetched = 0;
    host_xpu_context_t context;
    answers[0] = ended(&ep, host_xpu_write(&ep, here, 32, target, 0, win, &context), &context);
    answers[1] = ended(
        &ep, host_xpu_fetch_atomic(&ep, &seven, &fetched, target, 0, win, HOST_UINT64, HOST_SUM, &context),
        &context);
    answers[2] = ended(&ep, host_xpu_read(&ep, here + 32, 32, target, 0, win, &context), &context);
    answers[3] = fetched;
    answers[4] = host_xpu_cntr_read(&ep);
    answers[5] = host_xpu_cntr_readerr(&ep);
}

/* Each thread adds 1 to the target's first word `rounds` times; `found`, in host memory, receives what was there before, or the
 * negative errno of an operation that failed. The ring is smaller than the threads are many. */
KERNEL host_stub_started_by_many(host_xpu_ep_t ep, host_xpu_win_t win, int target, unsigned long long rounds,
                                 unsigned long long *found) {
    unsigned long long *mine = found + number_of_thread() * rounds, one = 1;
    for (unsigned long long round = 0; round < rounds; round++) {
        host_xpu_context_t context;
        unsigned long long before = 0, came;
        int posted;
        do {
            posted = host_xpu_fetch_atomic(&ep, &one, &before, target, 0, win, HOST_UINT64, HOST_SUM, &context);
        } while (posted == -EAGAIN);
        came = ended(&ep, posted, &context);
        mine[round] = came == 1 ? before : came;
    }
}
