/* SPDX-License-Identifier: BSD-3-Clause */
/* The program's own device: its memory may not be accessed at the address that the host and the
 * transport get. The copy functions given to host_set_overrides access the memory through a second
 * mapping. Windows and buffers lie in this memory, so every other access faults.
 */
#define _GNU_SOURCE
#include "example.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define BYTES 65536
#define WORDS (BYTES / 8)
/* ROCm's number; the transport itself does not support this kind. */
#define KIND HOST_HMEM_ROCR

/* Makes a ring for a device whose kernels the host does not know: the program says that they can use a ring,
 * and maps the ring's memory for them. */
static void ring_of(int device) {
    host_device_ring_t *ring = NULL;
    host_xpu_ep_t ep;
    void *base = NULL;
    size_t size = 0;
    EXPECT(host_device_ring_create(device, 4, &ring) < 0 && ring == NULL);
    EXPECT(host_device_starts(device + 1) == HOST_ERR_ARG);
    MUST(host_device_starts(device));
    EXPECT(host_device_level() == 4);
    MUST(host_device_ring_create(device, 4, &ring));
    MUST(host_device_ring_memory(ring, &base, &size));
    MUST(host_device_ring_export(ring, &ep));
    EXPECT(ep.prov_id == HOST_XPU_PROXY && ep.prov_ctx == (uintptr_t)base && size % 4096 == 0);
    EXPECT(host_device_ring_memory(ring, NULL, &size) == HOST_ERR_ARG);
    EXPECT(host_device_ring_export(NULL, &ep) == HOST_ERR_ARG);
    EXPECT(host_device_ring_add_window(ring, NULL, NULL) == HOST_ERR_ARG);
    MUST(host_device_ring_free(&ring));
}

/* The two mappings of the same pages: the mapping for the device, and the mapping for the copy
 * functions. */
static char *memory, *shadow;
static atomic_int copies_from, copies_to, blocks_from, blocks_to, failing, under_way, most;
/* The number of calls of the copy functions with runs of several kinds. */
static atomic_int mixed;

/* The readable address of `size` bytes at an address; NULL for memory of no device
 * here. */
static char *reach(uint32_t kind, char *at, size_t size) {
    if (kind == HOST_HMEM_SYSTEM)
        return at;
    if (kind != KIND || at < memory || at + size > memory + 2 * BYTES)
        return NULL;
    return shadow + (at - memory);
}

/* Copies between runs and flat bytes, to the runs or from them. */
static ptrdiff_t walk(const struct iovec *iov, const uint32_t *iface, size_t count, uint64_t offset,
                      char *flat, size_t size, int to) {
    size_t done = 0;
    if (atomic_load(&failing))
        return -EIO;
    for (size_t i = 1; i < count; i++) {
        if (iface[i] != iface[0]) {
            atomic_fetch_add(&mixed, 1);
            break;
        }
    }
    for (size_t i = 0; i < count && done < size; i++) {
        if (offset >= iov[i].iov_len) {
            offset -= iov[i].iov_len;
            continue;
        }
        size_t n = iov[i].iov_len - offset;
        if (n > size - done)
            n = size - done;
        char *here = reach(iface[i], (char *)iov[i].iov_base + offset, n);
        if (here == NULL)
            return iface[i] == KIND ? -EFAULT : -ENOSYS;
        if (to)
            memcpy(here, flat + done, n);
        else
            memcpy(flat + done, here, n);
        done += n;
        offset = 0;
    }
    return (ptrdiff_t)done;
}

static ptrdiff_t copy_from(void *dest, size_t size, const struct iovec *iov, const uint32_t *iface,
                           size_t count, uint64_t offset) {
    atomic_fetch_add(&copies_from, 1);
    return walk(iov, iface, count, offset, dest, size, 0);
}

static ptrdiff_t copy_to(const struct iovec *iov, const uint32_t *iface, size_t count, uint64_t offset,
                         const void *src, size_t size) {
    atomic_fetch_add(&copies_to, 1);
    return walk(iov, iface, count, offset, (char *)src, size, 1);
}

/* Copies between blocks and flat bytes, to the blocks or from them. */
static ptrdiff_t walk_blocks(char *base, uint32_t iface, size_t block, const size_t *stride,
                             const size_t *count, char *flat, size_t size, int to) {
    if (size != block * count[0] * count[1])
        return -EINVAL;
    for (size_t row = 0; row < count[1]; row++)
        for (size_t column = 0; column < count[0]; column++, flat += block) {
            char *here = reach(iface, base + row * stride[1] + column * stride[0], block);
            if (here == NULL)
                return -EFAULT;
            memcpy(to ? here : flat, to ? flat : here, block);
        }
    return (ptrdiff_t)size;
}

static ptrdiff_t from_blocks(void *dest, size_t size, const void *base, uint32_t iface, size_t block,
                             const size_t *stride, const size_t *count) {
    atomic_fetch_add(&blocks_from, 1);
    return walk_blocks((char *)base, iface, block, stride, count, dest, size, 0);
}

static ptrdiff_t to_blocks(void *base, uint32_t iface, size_t block, const size_t *stride,
                           const size_t *count, const void *src, size_t size) {
    atomic_fetch_add(&blocks_to, 1);
    return walk_blocks(base, iface, block, stride, count, (char *)src, size, 1);
}

/* A copy out of the device that completes at the third query. */
struct late {
    struct iovec iov;
    uint32_t iface;
    uint64_t offset;
    void *dest;
    size_t size;
    int asked;
};

static ptrdiff_t start_from(void *stream, void *dest, size_t size, const struct iovec *iov,
                            const uint32_t *iface, size_t count, uint64_t offset, void **event) {
    struct late *late = malloc(sizeof *late);
    if (late == NULL || count != 1 || stream != &under_way)
        return -EINVAL;
    *late = (struct late){*iov, *iface, offset, dest, size, 0};
    int now = atomic_fetch_add(&under_way, 1) + 1;
    if (now > atomic_load(&most))
        atomic_store(&most, now);
    *event = late;
    return (ptrdiff_t)size;
}

static int32_t ask(void *event) {
    struct late *late = event;
    if (++late->asked < 3)
        return 0;
    ptrdiff_t n = walk(&late->iov, &late->iface, 1, late->offset, late->dest, late->size, 0);
    int32_t answer = n == (ptrdiff_t)late->size ? 1 : -EIO;
    atomic_fetch_sub(&under_way, 1);
    free(late);
    return answer;
}

/* Sets both functions, or one of them. */
static int set_overrides(host_copy_from_hmem_fn from, host_copy_to_hmem_fn to) {
    host_overrides_t overrides = {.magic = HOST_OVERRIDES_MAGIC, .size = sizeof overrides,
                                  .copy_from_hmem_iov = from, .copy_to_hmem_iov = to};
    return host_set_overrides(&overrides);
}

static void map_device(void) {
    int fd = memfd_create("own-device", MFD_CLOEXEC);
    EXPECT(fd >= 0 && ftruncate(fd, 2 * BYTES) == 0);
    memory = mmap(NULL, 2 * BYTES, PROT_NONE, MAP_SHARED, fd, 0);
    shadow = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    EXPECT(memory != MAP_FAILED && shadow != MAP_FAILED);
    close(fd);
}

static host_win_t *window_at(host_comm_t *world, void *base, int device, int works) {
    host_info_t *info = NULL;
    host_win_t *win = NULL;
    char number[16];
    snprintf(number, sizeof number, "%d", device);
    MUST(host_info_create(&info));
    MUST(host_info_set(info, "device_num", number));
    int code = host_win_create_over(world, base, BYTES, 8, info, &win);
    MUST(host_info_free(&info));
    if (works)
        MUST(code);
    else
        EXPECT(code < 0 && win == NULL);
    return win;
}

#define ROWS 20
#define COLUMNS 15
#define ALL (ROWS * COLUMNS)

/* Transfers a column, and a face of a block as 20 rows of 15 elements. One call packs each; without
 * functions for blocks, one call packs 256 runs and another the rest. */
static void halo(host_comm_t *world, host_win_t *win, int next, int before) {
    static host_block_t blocks[ALL];
    uint64_t *buffer = (uint64_t *)(void *)(memory + BYTES), *bytes = (uint64_t *)(void *)(shadow + BYTES);
    uint64_t *mine = (uint64_t *)(void *)shadow, rank = (uint64_t)host_rank() * 1000000;
    const host_layout_t flat = {.magic = HOST_LAYOUT_MAGIC, .size = sizeof flat, .count = 1, .length = ALL,
                                .stride = ALL, .datatype = HOST_UINT64},
                        column = {.magic = HOST_LAYOUT_MAGIC, .size = sizeof column, .count = ALL, .length = 1,
                                  .stride = 5, .datatype = HOST_UINT64},
                        face = {.magic = HOST_LAYOUT_MAGIC, .size = sizeof face, .blocks = blocks, .count = ALL,
                                .datatype = HOST_UINT64};
    for (size_t i = 0; i < ALL; i++)
        blocks[i] = (host_block_t){.displacement = i / COLUMNS * 100 + i % COLUMNS * 3, .length = 1};
    for (int turn = 0; turn < 4; turn++) {
        int strided = turn < 2, runs = strided ? 0 : 2;
        const host_layout_t *layout = turn % 2 ? &face : &column;
        host_overrides_t overrides = {.magic = HOST_OVERRIDES_MAGIC, .size = sizeof overrides,
                                      .copy_from_hmem_iov = copy_from, .copy_to_hmem_iov = copy_to,
                                      .copy_from_hmem_strided = strided ? from_blocks : NULL,
                                      .copy_to_hmem_strided = strided ? to_blocks : NULL};
        MUST(host_set_overrides(&overrides));
        for (size_t i = 0; i < WORDS; i++)
            bytes[i] = rank + i;
        MUST(host_comm_barrier(world));
        atomic_store(&copies_from, 0), atomic_store(&blocks_from, 0);
        MUST(host_win_lock_all(win));
        MUST(host_put_layout(buffer, layout, next, 0, &flat, win));
        MUST(host_win_flush(next, win));
        MUST(host_comm_barrier(world));
        EXPECT(atomic_load(&blocks_from) == strided && atomic_load(&copies_from) == runs);
        for (size_t i = 0; i < ALL; i++) {
            size_t place = turn % 2 ? blocks[i].displacement : 5 * i;
            EXPECT(mine[i] == (uint64_t)before * 1000000 + place);
            bytes[place] = 0;
        }
        atomic_store(&copies_to, 0), atomic_store(&blocks_to, 0);
        MUST(host_get_layout(buffer, layout, next, 0, &flat, win));
        MUST(host_win_unlock_all(win));
        EXPECT(atomic_load(&blocks_to) == strided && atomic_load(&copies_to) == runs);
        for (size_t i = 0; i < WORDS; i++)
            EXPECT(bytes[i] == rank + i);
        MUST(host_comm_barrier(world));
    }
    MUST(set_overrides(copy_from, copy_to));
}

/* Puts with asynchronous copies: several copies are outstanding at the same time. */
static void later(host_comm_t *world, host_win_t *win, int next, int before, int taken) {
    uint64_t *bytes = (uint64_t *)(void *)(shadow + BYTES), *mine = (uint64_t *)(void *)shadow;
    uint64_t rank = (uint64_t)host_rank() * 1000000;
    host_overrides_t overrides = {.magic = HOST_OVERRIDES_MAGIC, .size = sizeof overrides,
                                  .copy_from_hmem_iov = copy_from, .copy_to_hmem_iov = copy_to,
                                  .copy_from_hmem_async = start_from, .query_event = ask,
                                  .stream = &under_way};
    MUST(host_set_overrides(&overrides));
    for (size_t i = 0; i < WORDS; i++)
        bytes[i] = rank + i;
    MUST(host_comm_barrier(world));
    MUST(host_win_lock_all(win));
    for (size_t part = 0; part < 4; part++)
        MUST(host_put(memory + BYTES + part * BYTES / 4, BYTES / 4, next, part * WORDS / 4, win));
    MUST(host_win_unlock_all(win));
    MUST(host_comm_barrier(world));
    for (size_t i = 0; i < WORDS; i++)
        EXPECT(mine[i] == (uint64_t)before * 1000000 + i);
    EXPECT(atomic_load(&under_way) == 0 && (taken ? atomic_load(&most) > 1 : atomic_load(&most) == 0));
    MUST(set_overrides(copy_from, copy_to));
    MUST(host_comm_barrier(world));
}

/* Devices and memory that the host refuses. */
static void mistakes(int device) {
    int other = -5;
    EXPECT(host_device_add(NULL, KIND, 0, &other) < 0);
    EXPECT(host_device_add("own", HOST_HMEM_SYSTEM, 0, &other) < 0);
    EXPECT(host_device_add("own", KIND, 0, NULL) < 0 && other == -5);
    EXPECT(host_device_add_memory(device + 1, memory, BYTES) < 0);
    EXPECT(host_device_add_memory(device, NULL, BYTES) < 0);
    EXPECT(host_device_add_memory(device, memory, 0) < 0);
    EXPECT(host_device_forget_memory(NULL) < 0);
    void *none = NULL;
    EXPECT(host_device_alloc(device, 64, &none) < 0 && none == NULL);
    uint64_t word = 0;
    EXPECT(host_device_write(NULL, &word, 8) == HOST_ERR_ARG && host_device_read(&word, NULL, 8) == HOST_ERR_ARG);
    EXPECT(host_device_write(NULL, &word, 0) == 0 && host_device_read(&word, NULL, 0) == 0);
    EXPECT(host_encode_location(NULL, -1, &none) == HOST_ERR_ARG && none == NULL);
    host_overrides_t overrides = {.magic = HOST_COLL_TABLE_MAGIC, .size = sizeof overrides};
    EXPECT(host_set_overrides(&overrides) == HOST_ERR_ARG && strstr(host_error_text(), "host_overrides_t"));
}

/* The runs of a buffer lie on the host and on the device: one call of a copy function in each
 * direction. */
static void mixed_runs(uint64_t *buffer, uint64_t *bytes, int next, host_win_t *win) {
    uint64_t first[2] = {11, 12}, last[1] = {16};
    const host_run_t runs[] = {{first, 2}, {buffer, 1}, {buffer + 4, 2}, {last, 1}};
    host_layout_t gives = {.magic = HOST_LAYOUT_MAGIC, .size = sizeof gives, .count = 4, .datatype = HOST_UINT64,
                           .runs = runs};
    host_layout_t row = {.magic = HOST_LAYOUT_MAGIC, .size = sizeof row, .count = 1, .length = 6,
                         .datatype = HOST_UINT64};
    bytes[0] = 13, bytes[1] = 99, bytes[4] = 14, bytes[5] = 15;
    int before = atomic_load(&mixed);
    MUST(host_win_lock_all(win));
    MUST(host_put_layout(NULL, &gives, next, 0, &row, win));
    EXPECT(atomic_load(&mixed) == before + 1);
    MUST(host_win_flush(next, win));
    first[0] = first[1] = last[0] = bytes[0] = bytes[4] = bytes[5] = 0;
    MUST(host_get_layout(NULL, &gives, next, 0, &row, win));
    MUST(host_win_flush(next, win));
    EXPECT(atomic_load(&mixed) == before + 2);
    EXPECT(first[0] == 11 && first[1] == 12 && bytes[0] == 13 && bytes[4] == 14 && bytes[5] == 15 && last[0] == 16);
    EXPECT(bytes[1] == 99);
    EXPECT(host_put_layout(buffer, &gives, next, 0, &row, win) < 0);
    EXPECT(host_put_layout(buffer, &row, next, 0, &gives, win) < 0);
    gives.stride = 1;
    EXPECT(host_put_layout(NULL, &gives, next, 0, &row, win) == HOST_ERR_ARG);
    MUST(host_win_unlock_all(win));
}

int main(int argc, char **argv) {
    /* Whether the provider accepts overrides. With any argument, the transport copies no buffers of 16 KiB, because
     * the provider accesses them. */
    int honoured = argc > 1 && strcmp(argv[1], "honoured") == 0;
    MUST(host_init());
    int rank = host_rank(), size = host_size(), device = -1, found = -1;
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    host_comm_t *world = NULL;
    MUST(host_comm_world(&world));
    map_device();

    int known = host_device_count(), answer = 1;
    MUST(host_query_overrides(&answer));
    EXPECT(answer == -ENODATA && host_query_overrides(NULL) < 0);
    MUST(set_overrides(copy_from, copy_to));
    MUST(host_query_overrides(&answer));
    EXPECT(answer == (honoured ? 0 : -ENOSYS));
    MUST(host_device_add("own", KIND, 0, &device));
    EXPECT(device == known && host_device_count() == known + 1 && host_device_level() == 2);
    mistakes(device);
    ring_of(device);
    MUST(host_device_add_memory(device, memory, 2 * BYTES));
    EXPECT(host_device_add_memory(device, memory + BYTES, 2 * BYTES) < 0);
    void *address = NULL;
    MUST(host_target_location(memory + 8, &found, &address));
    EXPECT(found == device && address == memory + 8);

    /* The first half is the window, the second half is for buffers. */
    uint64_t *buffer = (uint64_t *)(void *)(memory + BYTES), *mine = (uint64_t *)(void *)shadow;
    uint64_t *bytes = (uint64_t *)(void *)(shadow + BYTES), host = 7, got = 0;
    for (int i = 0; i < WORDS; i++)
        bytes[i] = (uint64_t)(1000000 * rank + i);
    host_win_t *win = window_at(world, memory, device, 1);
    MUST(host_win_fence(win));
    MUST(host_put(buffer, BYTES / 2, next, 0, win));
    MUST(host_win_fence(win));
    for (int i = 0; i < WORDS / 2; i++)
        EXPECT(mine[i] == (uint64_t)(1000000 * before + i));
    EXPECT(atomic_load(&copies_from) > 0 && atomic_load(&copies_to) > 0);

    /* HOST_ON_DEVICE is accepted for device memory. HOST_ON_DEVICE is refused for host memory, and
     * no data is sent. */
    const int type = HOST_UINT64 | HOST_ON_DEVICE;
    MUST(host_accumulate(buffer, 4, type, HOST_SUM, next, WORDS / 2, win));
    EXPECT(host_accumulate(&host, 1, type, HOST_SUM, next, WORDS / 2, win) < 0);
    EXPECT(strstr(host_error_text(), "accumulate") != NULL);
    MUST(host_win_fence(win));
    for (int i = 0; i < 4; i++)
        EXPECT(mine[WORDS / 2 + i] == (uint64_t)(1000000 * before + i));
    /* The next rank then replaces one of these words. */
    MUST(host_comm_barrier(world));
    MUST(host_get_accumulate(buffer, buffer + 8, 1, type, HOST_REPLACE, next, WORDS / 2 + 1, win));
    EXPECT(host_get_accumulate(buffer, &got, 1, type, HOST_SUM, next, WORDS / 2, win) < 0 && got == 0);
    MUST(host_win_fence(win));
    EXPECT(bytes[8] == (uint64_t)(1000000 * rank + 1));
    EXPECT(mine[WORDS / 2] == (uint64_t)(1000000 * before) && mine[WORDS / 2 + 1] == mine[0]);
    /* Collectives accept the mark too. */
    bytes[0] = 5;
    EXPECT(host_allreduce(&host, &got, 1, type, HOST_SUM, world) < 0);
    MUST(host_allreduce(buffer, buffer + 1, 1, type, HOST_SUM, world));
    EXPECT(bytes[1] == (uint64_t)(5 * size));
    MUST(host_win_fence_end(win));

    MUST(host_comm_barrier(world));
    mixed_runs(buffer, bytes, next, win);
    bytes[0] = 5;

    /* A copy of this process fails: its put fails, and the next put succeeds. */
    MUST(host_comm_barrier(world));
    MUST(host_win_lock_all(win));
    atomic_store(&failing, 1);
    int put = host_put(buffer, 4096, rank, 0, win);
    int over = host_win_flush(rank, win);
    atomic_store(&failing, 0);
    EXPECT(put < 0 || over < 0);
    MUST(host_put(buffer, 4096, rank, 0, win));
    MUST(host_win_unlock_all(win));
    EXPECT(mine[0] == 5);
    MUST(host_comm_barrier(world));

    halo(world, win, next, before);
    later(world, win, next, before, argc < 2);
    bytes[0] = 5;
    MUST(host_comm_barrier(world));

    /* The table of an older program has one function; the host does not read behind
     * it. */
    host_overrides_t older = {.magic = HOST_OVERRIDES_MAGIC,
                              .size = offsetof(host_overrides_t, copy_to_hmem_iov),
                              .copy_from_hmem_iov = copy_from, .copy_to_hmem_iov = copy_to};
    /* Only one function is set: the transport copies in the other direction, and does not
     * support this kind. */
    MUST(host_set_overrides(&older));
    EXPECT(host_device_read(&got, buffer, 8) == 0 && got == 5);
    EXPECT(host_device_write(buffer, &host, 8) < 0 && bytes[0] == 5);
    MUST(set_overrides(NULL, copy_to));
    EXPECT(host_device_read(&got, buffer, 8) < 0);
    EXPECT(host_device_write(buffer, &host, 8) == 0 && bytes[0] == host);
    /* The window, which was created with both functions, can likewise be written but not
     * read. */
    MUST(host_comm_barrier(world));
    MUST(host_win_lock_all(win));
    MUST(host_put(&host, 8, next, 1, win));
    MUST(host_win_flush(next, win));
    int get = host_get(&got, 8, next, 1, win);
    over = host_win_flush(next, win);
    EXPECT(get < 0 || over < 0);
    MUST(host_comm_barrier(world));
    EXPECT(mine[1] == host);
    MUST(set_overrides(copy_from, copy_to));
    MUST(host_comm_barrier(world));
    MUST(host_get(&got, 8, next, 1, win));
    MUST(host_win_unlock_all(win));
    EXPECT(got == host);
    MUST(host_win_free(&win));
    MUST(host_device_forget_memory(memory));

    /* Without overrides, no function can access the memory. */
    MUST(host_set_overrides(NULL));
    MUST(host_device_add_memory(device, memory, 2 * BYTES));
    EXPECT(window_at(world, memory, device, 0) == NULL);
    MUST(host_device_forget_memory(memory));
    MUST(host_finalize());
    printf("passed\n");
    return 0;
}
