/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel with which the device suite tries operations that a device starts. `started.ptx` is made of
 * it, and a test compares:
 *
 *   clang++ -x cuda --cuda-device-only --cuda-gpu-arch=sm_70 -nocudainc -nocudalib -O2 -S \
 *       -I host-stub/include -o host-stub/cuda/started.ptx host-stub/cuda/started.cu
 *
 * As C it is a function of the host, which the tests' fake of CUDA calls in a thread.
 */
#include "host_stub_device.cuh"

#if defined(__CUDA__) && !defined(__global__)
#define __global__ __attribute__((global))
#endif
#if defined(__CUDACC__) || defined(__CUDA__)
#define KERNEL extern "C" __global__ void
#else
#define KERNEL void
#endif

#define UINT64 7 /* FI_UINT64 */
#define SUM 0    /* host_stub::win::Op::Sum in Op::ALL */

HOST_STUB_FN int run(host_stub_ring *ring, unsigned kind, unsigned target, unsigned long long local,
                     unsigned long long count, unsigned long long operand,
                     unsigned long long *result) {
    host_stub_command command = {};
    command.kind = kind;
    command.target = target;
    command.datatype = UINT64;
    command.op = SUM;
    command.local = local;
    command.count = count;
    command.operand = operand;
    return host_stub_wait(ring, host_stub_submit(ring, &command), result);
}

/* Puts four words at `local` to the target's first ones, adds 7 to the first, and gets the four back
 * behind those at `local`. `answers`, in host memory: the statuses, then what was fetched. */
KERNEL host_stub_started(host_stub_ring *ring, unsigned target, unsigned long long local,
                         unsigned long long *answers) {
    unsigned long long fetched = 0;
    answers[0] = (unsigned long long)run(ring, HOST_STUB_PUT, target, local, 4, 0, 0);
    answers[1] = (unsigned long long)run(ring, HOST_STUB_FLUSH, target, 0, 0, 0, 0);
    answers[2] = (unsigned long long)run(ring, HOST_STUB_FETCH_OP, target, 0, 1, 7, &fetched);
    answers[3] = (unsigned long long)run(ring, HOST_STUB_GET, target, local + 32, 4, 0, 0);
    answers[4] = (unsigned long long)run(ring, HOST_STUB_FLUSH, target, 0, 0, 0, 0);
    answers[5] = fetched;
}
