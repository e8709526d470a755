/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fake of CUDA's driver library, for machines without a GPU: the functions of libcuda.so that this
 * project calls, over memory that faults when the processor accesses its address. The fake shows that the
 * calls are made in an order and a state that the real driver accepts. The fake is no GPU, and shows nothing
 * about speed or about undocumented behaviour of the real driver. The fake is stricter than the real
 * driver:
 *
 * - A copy runs when its stream is synchronised, or when an event behind it is queried for the second time.
 * - A call that needs a context fails without a current context; a stream works only in its own context.
 * - An address outside every allocation is refused, and so is a copy that exceeds an allocation.
 * - Kernels are those of host-stub/cuda/started.cu, compiled for the host, and run on separate threads.
 * - At exit, the fake reports a context left current, a host range left pinned, or an allocation left; the
 *   process then ends with status 90.
 *
 * FAKE_CUDA_DEVICES is the number of devices (default 1), FAKE_CUDA_CAPABILITY their compute capability
 * (default 7).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_cuda.h"
#include "../../host-stub/cuda/started.cu"

static __thread unsigned own_number; /* among the threads of a kernel */

static unsigned number_of_thread(void)
{
    return own_number;
}

#define DEVICES_MOST 16
#define STACK_MOST 16

/* A context: the primary context of a device with its reference count, or a context that a
 * program made. */
struct CUctx_st {
    int device;
    int retained;
};

/* A copy that a stream has yet to make; without `from`, the copy fills bytes with a value. */
struct copy {
    struct copy *next;
    CUdeviceptr to, from;
    size_t size;
    unsigned char value;
};

struct CUstream_st {
    struct CUctx_st *context;
    struct copy *first, **last;
    /* The kernel, if one was launched, and the number of its threads that have ended. */
    CUfunction kernel;
    int launched, over;
    struct started *threads;
    host_xpu_ep_t ep;
    host_xpu_win_t win;
    int target;
    unsigned long long local, *answers;
};

/* Follows the copies of a stream; `asked` is the number of queries since it was
 * recorded. */
struct CUevent_st {
    struct CUctx_st *context;
    CUstream stream;
    int asked;
};

/* A thread of a kernel. */
struct started {
    pthread_t thread;
    CUstream stream;
    unsigned number;
};

typedef void kernel_function(host_xpu_ep_t, host_xpu_win_t, int, unsigned long long, unsigned long long *);

struct CUfunc_st {
    const char *name;
    kernel_function *run;
};

static struct CUfunc_st kernels[] = {
    {"host_stub_started", host_stub_started},
    {"host_stub_started_by_many", host_stub_started_by_many},
};

struct CUmod_st {
    int loaded;
};

static struct CUmod_st only_module;

/* Memory of a device: the address that the program sees, and the address that the copies
 * use. */
struct allocation {
    struct allocation *next;
    char *seen, *reached;
    size_t size, mapped;
    unsigned long long id;
    struct CUctx_st *context;
    int file, managed;
    int opened, process; /* of another process: how often it was opened, and whose it is */
};

struct pinned {
    struct pinned *next;
    char *base;
    size_t size;
    int mapped;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int initialised, streams;
static struct CUctx_st contexts[DEVICES_MOST];
static struct allocation *allocations;
static struct pinned *pins;
static unsigned long long ids;
static size_t largest; /* bytes of a pinned range */
static unsigned long long counts[5]; /* numbers of allocations, copies, pinned ranges, events, copies of opened memory */
static int freed_open; /* whether memory was freed that another process had open */
static int events; /* events that were not destroyed */
static __thread struct CUctx_st *stack[STACK_MOST];
static __thread int depth;

static int devices(void)
{
    const char *text = getenv("FAKE_CUDA_DEVICES");
    int count = text ? atoi(text) : 1;
    return count < 0 ? 0 : count > DEVICES_MOST ? DEVICES_MOST : count;
}

static struct CUctx_st *current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

static struct allocation *find(CUdeviceptr at)
{
    struct allocation *a = allocations;
    while (a && (at < (CUdeviceptr)a->seen || at >= (CUdeviceptr)a->seen + a->size))
        a = a->next;
    return a;
}

static struct pinned *pinned_at(CUdeviceptr at)
{
    struct pinned *p = pins;
    while (p && (at < (CUdeviceptr)p->base || at >= (CUdeviceptr)p->base + p->size))
        p = p->next;
    return p;
}

/* Reports errors when the program ends. */
__attribute__((destructor)) static void look(void)
{
    const char *wrong = depth ? "a context is still current on the last thread"
        : pins ? "host memory is still pinned"
        : freed_open ? "memory had been freed while another process had it open"
        : allocations ? allocations->opened ? "memory of another process was not closed" : "memory of a device was not freed"
        : events ? "an event was not destroyed" : NULL;
    if (initialised && getenv("FAKE_CUDA_SAY"))
        fprintf(stderr, "fake CUDA: %llu allocations, %llu copies, %llu pinned ranges, "
                        "the largest of %zu KiB, %d streams, %llu events, %llu copies of opened memory\n",
                counts[0], counts[1], counts[2], largest >> 10, streams, counts[3], counts[4]);
    if (wrong) {
        fprintf(stderr, "fake CUDA: at the end %s\n", wrong);
        _exit(90);
    }
}

CUresult cuInit(unsigned flags)
{
    initialised = 1;
    return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    if (!initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    *count = devices();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    if (!initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (ordinal < 0 || ordinal >= devices())
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice device)
{
    if (device < 0 || device >= devices())
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)len, "fake CUDA device %d", device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    if (device < 0 || device >= devices())
        return CUDA_ERROR_INVALID_DEVICE;
    const char *major = getenv("FAKE_CUDA_CAPABILITY");
    *value = attribute == CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY ||
             attribute == CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING;
    if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
        *value = major ? atoi(major) : 7;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    if (device < 0 || device >= devices())
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&lock);
    contexts[device].device = device;
    contexts[device].retained++;
    *context = &contexts[device];
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    if (device < 0 || device >= devices() || contexts[device].retained == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    contexts[device].retained--;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    if (device < 0 || device >= devices())
        return CUDA_ERROR_INVALID_DEVICE;
    *flags = 0;
    *active = contexts[device].retained > 0;
    return CUDA_SUCCESS;
}

/* Makes a context current. cuCtxDestroy does not exist here: contexts of the program
 * stay. */
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    static struct CUctx_st made[STACK_MOST];
    static int count;
    if (flags || device < 0 || device >= devices())
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct CUctx_st *new = count < STACK_MOST ? &made[count++] : NULL;
    pthread_mutex_unlock(&lock);
    if (!new)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *new = (struct CUctx_st){.device = device, .retained = 1};
    *context = new;
    return cuCtxPushCurrent_v2(new);
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = current();
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    if (!context || context->retained == 0 || depth == STACK_MOST)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    *context = stack[--depth];
    return CUDA_SUCCESS;
}

/* Bytes of a file of memory: the memory's whole pages, and one for all processes that map the file. */
static size_t length(size_t size)
{
    return (size + 4095) / 4096 * 4096 + 4096;
}

/* Memory in a file, which the program sees with this protection; NULL if the file cannot be mapped. The lock is
 * held. */
static struct allocation *mapped(int file, size_t size, int protection)
{
    struct allocation *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    *a = (struct allocation){
        .next = allocations,
        .seen = mmap(NULL, length(size), protection, MAP_SHARED, file, 0),
        .reached = mmap(NULL, length(size), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0),
        .size = size,
        .mapped = length(size),
        .context = current(),
        .file = file,
    };
    if (a->seen == MAP_FAILED || a->reached == MAP_FAILED) {
        free(a);
        return NULL;
    }
    allocations = a;
    return a;
}

/* The number of other processes that have opened memory. */
static int *openings(struct allocation *a)
{
    return (int *)(a->reached + a->mapped - 4096);
}

/* Forgets and unmaps memory. The lock is held. */
static void unlink_allocation(struct allocation *a)
{
    struct allocation **link = &allocations;
    while (*link != a)
        link = &(*link)->next;
    *link = a->next;
    munmap(a->seen, a->mapped);
    munmap(a->reached, a->mapped);
    close(a->file);
    free(a);
}

/* Allocates memory that the program sees with this protection. */
static CUresult allocate(CUdeviceptr *at, size_t size, int protection)
{
    if (!current())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    int file = memfd_create("fake-cuda", MFD_CLOEXEC);
    struct allocation *a = NULL;
    pthread_mutex_lock(&lock);
    if (file >= 0 && ftruncate(file, (off_t)length(size)) == 0)
        a = mapped(file, size, protection);
    if (a) {
        a->id = ++ids;
        a->managed = protection != PROT_NONE;
        counts[0]++;
        *at = (CUdeviceptr)a->seen;
    } else if (file >= 0) {
        close(file);
    }
    pthread_mutex_unlock(&lock);
    return a ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t size)
{
    return allocate(at, size, PROT_NONE);
}

/* Managed memory belongs to a device, but the processor can access its address. */
CUresult cuMemAllocManaged(CUdeviceptr *at, size_t size, unsigned flags)
{
    return flags == CU_MEM_ATTACH_GLOBAL ? allocate(at, size, PROT_READ | PROT_WRITE) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemFree_v2(CUdeviceptr at)
{
    if (!current())
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    struct allocation *a = find(at);
    int is_own = a && (CUdeviceptr)a->seen == at && !a->opened;
    if (is_own) {
        freed_open |= __atomic_load_n(openings(a), __ATOMIC_SEQ_CST) != 0;
        unlink_allocation(a);
    }
    pthread_mutex_unlock(&lock);
    return is_own ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr at)
{
    CUresult result = CUDA_ERROR_NOT_FOUND;
    pthread_mutex_lock(&lock);
    struct allocation *a = find(at);
    if (a) {
        *base = (CUdeviceptr)a->seen;
        *size = a->size;
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr at)
{
    CUresult result = CUDA_SUCCESS;
    if (!initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&lock);
    struct allocation *a = find(at);
    if (!a && attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE && pinned_at(at))
        *(unsigned *)data = CU_MEMORYTYPE_HOST;
    else if (!a)
        result = CUDA_ERROR_INVALID_VALUE;
    else if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT)
        /* On devices with odd numbers the memory belongs to no context, like memory of a
         * pool. */
        *(CUcontext *)data = a->context->device % 2 ? NULL : a->context;
    else if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
        *(unsigned *)data = CU_MEMORYTYPE_DEVICE;
    else if (attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID)
        *(unsigned long long *)data = a->id;
    else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        *(int *)data = a->context->device;
    else
        result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    if (!current())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (flags != CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE; /* the real driver accepts 0 too; see the note in cuda.rs */
    struct CUstream_st *s = calloc(1, sizeof *s);
    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    s->context = current();
    s->last = &s->first;
    __atomic_add_fetch(&streams, 1, __ATOMIC_RELAXED);
    *stream = s;
    return CUDA_SUCCESS;
}

#include "fake_cuda_kernels.h"

/* Whether an end of a copy lies completely in memory of a device. */
static CUresult judge(CUdeviceptr at, size_t size, int *on_device)
{
    struct allocation *a = find(at);
    *on_device = a != NULL;
    return a && at + size > (CUdeviceptr)a->seen + a->size ? CUDA_ERROR_INVALID_VALUE
                                                           : CUDA_SUCCESS;
}

/* For the test's own program: the address at which it can access memory of a device, and the
 * number of copies until now. */
char *fake_cuda_reached(CUdeviceptr at)
{
    pthread_mutex_lock(&lock);
    struct allocation *a = find(at);
    pthread_mutex_unlock(&lock);
    return a ? a->reached + (at - (CUdeviceptr)a->seen) : NULL;
}

unsigned long long fake_cuda_copies(void)
{
    pthread_mutex_lock(&lock);
    unsigned long long copies = counts[1];
    pthread_mutex_unlock(&lock);
    return copies;
}

unsigned long long fake_cuda_copies_of_opened(void)
{
    pthread_mutex_lock(&lock);
    unsigned long long copies = counts[4];
    pthread_mutex_unlock(&lock);
    return copies;
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
    int to_device, from_device;
    CUresult result = CUDA_ERROR_INVALID_CONTEXT;
    struct copy *copy = calloc(1, sizeof *copy);
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *copy = (struct copy){.to = to, .from = from, .size = size};
    pthread_mutex_lock(&lock);
    if (stream && current() == stream->context &&
        (result = judge(to, size, &to_device)) == CUDA_SUCCESS &&
        (result = judge(from, size, &from_device)) == CUDA_SUCCESS) {
        if (to_device || from_device) {
            *stream->last = copy;
            stream->last = &copy->next;
            copy = NULL;
        } else {
            result = CUDA_ERROR_INVALID_VALUE;
        }
    }
    pthread_mutex_unlock(&lock);
    free(copy);
    return result;
}

CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t size, CUstream stream)
{
    int on_device = 0;
    CUresult result = CUDA_ERROR_INVALID_CONTEXT;
    struct copy *copy = calloc(1, sizeof *copy);
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *copy = (struct copy){.to = at, .size = size, .value = value};
    pthread_mutex_lock(&lock);
    if (stream && current() == stream->context && (result = judge(at, size, &on_device)) == CUDA_SUCCESS) {
        if (on_device) {
            *stream->last = copy;
            stream->last = &copy->next;
            copy = NULL;
        } else {
            result = CUDA_ERROR_INVALID_VALUE;
        }
    }
    pthread_mutex_unlock(&lock);
    free(copy);
    return result;
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *blocks, CUstream stream)
{
    int is_unified = blocks->srcMemoryType == CU_MEMORYTYPE_UNIFIED && blocks->dstMemoryType == CU_MEMORYTYPE_UNIFIED;
    int from_device = blocks->srcMemoryType == CU_MEMORYTYPE_DEVICE;
    int to_device = blocks->dstMemoryType == CU_MEMORYTYPE_DEVICE;
    CUdeviceptr from = is_unified || from_device ? blocks->srcDevice : (CUdeviceptr)blocks->srcHost;
    CUdeviceptr to = is_unified || to_device ? blocks->dstDevice : (CUdeviceptr)blocks->dstHost;
    size_t width = blocks->WidthInBytes;
    if (blocks->srcXInBytes || blocks->srcY || blocks->dstXInBytes || blocks->dstY || (!is_unified && from_device == to_device) ||
        blocks->srcPitch < width || blocks->dstPitch < width)
        return CUDA_ERROR_INVALID_VALUE; /* the real driver accepts other values of the first five too */
    CUresult result = CUDA_SUCCESS;
    for (size_t row = 0; row < blocks->Height && result == CUDA_SUCCESS; row++)
        result = cuMemcpyAsync(to + row * blocks->dstPitch, from + row * blocks->srcPitch, width, stream);
    return result;
}

/* The readable address of bytes; NULL for freed memory of a device. */
static char *reach(CUdeviceptr at)
{
    struct allocation *a = find(at);
    return a ? a->reached + (at - (CUdeviceptr)a->seen) : (char *)(uintptr_t)at;
}

/* Runs the copies of a stream. */
static void run(CUstream stream)
{
    pthread_mutex_lock(&lock);
    while (stream->first) {
        struct copy *copy = stream->first;
        if (copy->from) {
            memmove(reach(copy->to), reach(copy->from), copy->size);
            struct allocation *to = find(copy->to), *from = find(copy->from);
            counts[1]++;
            counts[4] += (to && to->opened) || (from && from->opened);
        } else {
            memset(reach(copy->to), copy->value, copy->size);
        }
        stream->first = copy->next;
        free(copy);
    }
    stream->last = &stream->first;
    pthread_mutex_unlock(&lock);
}

CUresult cuStreamSynchronize(CUstream stream)
{
    if (!stream || current() != stream->context)
        return CUDA_ERROR_INVALID_CONTEXT;
    run(stream);
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    if (!current())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (flags != CU_EVENT_DISABLE_TIMING)
        return CUDA_ERROR_INVALID_VALUE; /* the real driver accepts others too */
    struct CUevent_st *e = calloc(1, sizeof *e);
    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e->context = current();
    pthread_mutex_lock(&lock);
    counts[3]++;
    events++;
    pthread_mutex_unlock(&lock);
    *event = e;
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    if (!stream || current() != stream->context || !event || event->context != stream->context)
        return CUDA_ERROR_INVALID_CONTEXT;
    event->stream = stream;
    event->asked = 0;
    return CUDA_SUCCESS;
}

/* FAKE_CUDA_EVENTS_FAIL: every event reports that a copy failed. */
CUresult cuEventQuery(CUevent event)
{
    if (!event || !event->stream)
        return CUDA_ERROR_INVALID_VALUE; /* the real driver accepts an event that was not recorded */
    if (event->asked++ == 0)
        return CUDA_ERROR_NOT_READY;
    run(event->stream);
    return getenv("FAKE_CUDA_EVENTS_FAIL") ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    if (!event)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    events--;
    pthread_mutex_unlock(&lock);
    free(event);
    return CUDA_SUCCESS;
}

#include "fake_cuda_ipc.h"
#include "fake_cuda_pinned.h"
