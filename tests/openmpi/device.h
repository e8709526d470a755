/* Memory of a CUDA device for the programs of this folder, by the driver's own functions. The programs are
 * compiled with the header and linked with the library of the fake (tests/c/fake_cuda.c), but also run with
 * the real driver. */
#ifndef DEVICE_H
#define DEVICE_H

#include <cuda.h>

#include "check.h"

static CUcontext context;
static CUdevice device;
static CUstream stream;

#define DRIVER(call) CHECK(CUDA_SUCCESS == (call), "the driver refused")

/* Every rank uses the first device. */
static inline void begin_device(void)
{
    DRIVER(cuInit(0));
    DRIVER(cuDeviceGet(&device, 0));
    DRIVER(cuDevicePrimaryCtxRetain(&context, device));
    DRIVER(cuCtxPushCurrent(context));
    DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

/* The context stays until the process ends, because the component uses it in
 * MPI_Finalize. */
static inline void end_device(void)
{
    DRIVER(cuStreamDestroy(stream));
    DRIVER(cuCtxPopCurrent(&context));
}

/* Bytes of the host or of a device. */
typedef struct {
    char *at;
    size_t size;
    int on_device;
} Memory;

static inline Memory memory(size_t size, int on_device)
{
    Memory made = {NULL, size, on_device};
    if (on_device) {
        CUdeviceptr at;
        DRIVER(cuMemAlloc(&at, size));
        made.at = (char *) at;
    } else {
        CHECK((made.at = malloc(size)), "malloc");
    }
    return made;
}

static inline void release(Memory *of)
{
    if (of->on_device)
        DRIVER(cuMemFree((CUdeviceptr) of->at));
    else
        free(of->at);
    of->at = NULL;
}

static inline void copy(CUdeviceptr to, CUdeviceptr from, size_t size)
{
    DRIVER(cuMemcpyAsync(to, from, size, stream));
    DRIVER(cuStreamSynchronize(stream));
}

static inline void fill(const Memory *to, size_t offset, const void *from, size_t size)
{
    if (to->on_device)
        copy((CUdeviceptr) to->at + offset, (CUdeviceptr) from, size);
    else
        memcpy(to->at + offset, from, size);
}

static inline void take(const Memory *from, size_t offset, void *to, size_t size)
{
    if (from->on_device)
        copy((CUdeviceptr) to, (CUdeviceptr) from->at + offset, size);
    else
        memcpy(to, from->at + offset, size);
}

/* Whether all bytes equal the expected ones. */
static inline void same(const char *what, const Memory *of, const char *wanted)
{
    char *found = malloc(of->size);
    take(of, 0, found, of->size);
    for (size_t i = 0; i < of->size; i++)
        CHECK(found[i] == wanted[i], "%s: byte %zu is %d and not %d", what, i, found[i], wanted[i]);
    free(found);
}

#endif
