/* The program copies CUDA memory itself, on its own stream. One call copies the cells of a column. Each long copy has an event, so
 * that the next copy begins while the data of the first is sent. Each rank has a grid on the device. Each rank puts
 * its last column into the next rank's first column, and then all of its cells.
 *
 *   cc ... -I/usr/local/cuda/include cuda_streams.c -lhost_stub -lcuda
 *   host-stub launch -n 2 -- ./cuda_streams
 *
 * The transport copies CUDA memory itself if the program sets no copy functions.
 */
#include "example.h"

#include <cuda.h>
#include <errno.h>
#include <stdatomic.h>

#define ROWS 512
#define COLUMNS 257 /* the first column receives the puts of the previous rank */
#define CELLS (ROWS * COLUMNS)
#define COUNT (sizeof(double) * CELLS)

static CUcontext context;
static CUstream stream;
static atomic_int columns, events;

/* Whether a call of the driver succeeded; prints the error. */
static int good(CUresult result, const char *call) {
    if (result != CUDA_SUCCESS)
        fprintf(stderr, "%s: %d\n", call, (int)result);
    return result == CUDA_SUCCESS;
}
#define GOOD(call) good(call, #call)

/* Any thread of the host may copy, so each call names the context. */
static int enter(void) { return GOOD(cuCtxPushCurrent(context)); }

static ptrdiff_t leave(ptrdiff_t answer) {
    CUcontext before;
    return GOOD(cuCtxPopCurrent(&before)) ? answer : -EIO;
}

/* Starts to copy runs, from `offset` on, to contiguous bytes or from them. The driver finds the side on the device by the
 * addresses. */
static ptrdiff_t start(const struct iovec *iov, size_t count, uint64_t offset, char *flat, size_t size, int to) {
    size_t done = 0;
    for (size_t i = 0; i < count && done < size; i++) {
        if (offset >= iov[i].iov_len) {
            offset -= iov[i].iov_len;
            continue;
        }
        size_t n = iov[i].iov_len - offset;
        if (n > size - done)
            n = size - done;
        CUdeviceptr run = (CUdeviceptr)(uintptr_t)iov[i].iov_base + offset, bytes = (CUdeviceptr)(uintptr_t)(flat + done);
        if (!GOOD(cuMemcpyAsync(to ? run : bytes, to ? bytes : run, n, stream)))
            return -EIO;
        done += n;
        offset = 0;
    }
    return (ptrdiff_t)done;
}

static ptrdiff_t copy(const struct iovec *iov, size_t count, uint64_t offset, char *flat, size_t size, int to) {
    if (!enter())
        return -EIO;
    ptrdiff_t n = start(iov, count, offset, flat, size, to);
    /* This call waits also after a failure, because no copy may use the memory after its return. */
    return leave(GOOD(cuStreamSynchronize(stream)) ? n : -EIO);
}

static ptrdiff_t copy_from(void *dest, size_t size, const struct iovec *iov, const uint32_t *iface, size_t count,
                           uint64_t offset) {
    (void)iface;
    return copy(iov, count, offset, dest, size, 0);
}

static ptrdiff_t copy_to(const struct iovec *iov, const uint32_t *iface, size_t count, uint64_t offset, const void *src,
                         size_t size) {
    (void)iface;
    return copy(iov, count, offset, (char *)(uintptr_t)src, size, 1);
}

/* Rows of blocks at equal distances: each row takes one call of the driver, and a column is a single row. */
static ptrdiff_t copy_blocks(CUdeviceptr base, size_t block, const size_t *stride, const size_t *count, char *flat, size_t size,
                             int to) {
    if (!enter())
        return -EIO;
    atomic_fetch_add(&columns, 1);
    int all = 1;
    for (size_t row = 0; row < count[1] && all; row++, flat += block * count[0]) {
        CUDA_MEMCPY2D blocks = {.WidthInBytes = block, .Height = count[0]};
        blocks.srcMemoryType = to ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        blocks.dstMemoryType = to ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        blocks.srcHost = blocks.dstHost = flat;
        blocks.srcDevice = blocks.dstDevice = base + row * stride[1];
        size_t apart = count[0] > 1 ? stride[0] : block;
        blocks.srcPitch = to ? block : apart;
        blocks.dstPitch = to ? apart : block;
        all = GOOD(cuMemcpy2DAsync(&blocks, stream));
    }
    all = GOOD(cuStreamSynchronize(stream)) && all;
    return leave(all ? (ptrdiff_t)size : -EIO);
}

static ptrdiff_t blocks_from(void *dest, size_t size, const void *base, uint32_t iface, size_t block, const size_t *stride,
                             const size_t *count) {
    (void)iface;
    return copy_blocks((CUdeviceptr)(uintptr_t)base, block, stride, count, dest, size, 0);
}

static ptrdiff_t blocks_to(void *base, uint32_t iface, size_t block, const size_t *stride, const size_t *count,
                           const void *src, size_t size) {
    (void)iface;
    return copy_blocks((CUdeviceptr)(uintptr_t)base, block, stride, count, (char *)(uintptr_t)src, size, 1);
}

/* Starts a copy out of the device; the event ends with the copy. */
static ptrdiff_t start_from(void *of_program, void *dest, size_t size, const struct iovec *iov, const uint32_t *iface,
                            size_t count, uint64_t offset, void **event) {
    CUevent over = NULL;
    (void)of_program;
    (void)iface;
    if (!enter())
        return -EIO;
    if (!GOOD(cuEventCreate(&over, CU_EVENT_DISABLE_TIMING)))
        return leave(-EAGAIN); /* then it is copied at once */
    ptrdiff_t n = start(iov, count, offset, dest, size, 0);
    if (n > 0 && GOOD(cuEventRecord(over, stream))) {
        atomic_fetch_add(&events, 1);
        *event = over;
        leave(0);
        return n; /* the copy is under way, even if the event failed */
    }
    GOOD(cuStreamSynchronize(stream));
    GOOD(cuEventDestroy(over));
    return leave(-EIO);
}

static int32_t ask(void *event) {
    CUresult result = cuEventQuery(event);
    if (result == CUDA_ERROR_NOT_READY)
        return 0;
    int over = good(result, "cuEventQuery");
    return GOOD(cuEventDestroy(event)) && over ? 1 : -EIO;
}

static double cell(int rank, size_t i) { return rank * 1e6 + (double)i; }

/* Reads the grid, and compares a column, or all cells, with those of a rank. */
static void compare(CUdeviceptr grid, int rank, size_t from, size_t every) {
    static double cells[CELLS];
    MUST(host_device_read(cells, (void *)(uintptr_t)grid, COUNT));
    for (size_t i = 0; i < CELLS; i += every)
        EXPECT(cells[i] == cell(rank, i + from));
}

int main(void) {
    static double cells[CELLS];
    CUdevice device;
    CUdeviceptr grid, all;
    EXPECT(GOOD(cuInit(0)) && GOOD(cuDeviceGet(&device, 0)));
    EXPECT(GOOD(cuDevicePrimaryCtxRetain(&context, device)) && enter());
    EXPECT(GOOD(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)));
    EXPECT(GOOD(cuMemAlloc(&grid, COUNT)) && GOOD(cuMemAlloc(&all, COUNT)));

    MUST(host_init());
    int rank = host_rank(), size = host_size(), next = (rank + 1) % size, before = (rank + size - 1) % size;
    host_overrides_t overrides = {.magic = HOST_OVERRIDES_MAGIC, .size = sizeof overrides,
                                  .copy_from_hmem_iov = copy_from, .copy_to_hmem_iov = copy_to,
                                  .copy_from_hmem_strided = blocks_from, .copy_to_hmem_strided = blocks_to,
                                  .copy_from_hmem_async = start_from, .query_event = ask};
    MUST(host_set_overrides(&overrides));
    for (size_t i = 0; i < CELLS; i++)
        cells[i] = cell(rank, i);
    MUST(host_device_write((void *)(uintptr_t)grid, cells, COUNT));

    host_comm_t *world = NULL;
    host_info_t *info = NULL;
    host_win_t *halos = NULL, *copies = NULL;
    MUST(host_comm_world(&world));
    MUST(host_info_create(&info));
    MUST(host_info_set(info, "device_num", "0"));
    MUST(host_win_create_over(world, (void *)(uintptr_t)grid, COUNT, sizeof(double), info, &halos));
    MUST(host_win_create_over(world, (void *)(uintptr_t)all, COUNT, sizeof(double), info, &copies));
    MUST(host_info_free(&info));

    const host_layout_t column = {.magic = HOST_LAYOUT_MAGIC, .size = sizeof column, .count = ROWS, .length = 1,
                                  .stride = COLUMNS, .datatype = HOST_DOUBLE};
    CUdeviceptr last = grid + (COLUMNS - 1) * sizeof(double);
    MUST(host_win_fence(halos));
    MUST(host_put_layout((void *)(uintptr_t)last, &column, next, 0, &column, halos));
    MUST(host_win_fence_end(halos));
    compare(grid, before, COLUMNS - 1, COLUMNS);
    EXPECT(atomic_load(&columns) > 0);

    MUST(host_device_write((void *)(uintptr_t)grid, cells, COUNT));
    MUST(host_win_fence(copies));
    MUST(host_put((void *)(uintptr_t)grid, CELLS * sizeof(double), next, 0, copies));
    MUST(host_win_fence_end(copies));
    compare(all, before, 0, 1);
    EXPECT(atomic_load(&events) > 1);

    MUST(host_win_free(&halos));
    MUST(host_win_free(&copies));
    MUST(host_finalize());
    EXPECT(GOOD(cuMemFree(grid)) && GOOD(cuMemFree(all)) && GOOD(cuStreamDestroy(stream)) && leave(0) == 0);
    EXPECT(GOOD(cuDevicePrimaryCtxRelease(device)));
    printf("passed\n");
    return 0;
}
