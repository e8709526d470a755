/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets between two processes whose windows are memory of a device (tests/tests/device_cuda.rs), over the fake of
 * CUDA's driver, which counts copies. With "opened" rank 0 copies alone, from memory to memory. With "staged" the bytes are
 * right all the same, and no memory of the other process is copied to or from.
 *
 *   opened_memory opened|staged STEP [managed]: rank r uses device r * STEP
 */
#include "example.h"

#include "fake_cuda.h"

unsigned long long fake_cuda_copies(void), fake_cuda_copies_of_opened(void);

#define DRIVER(call) EXPECT((call) == CUDA_SUCCESS)
#define CELLS 4096
#define BEFORE 24 /* the window begins inside its allocation */
#define SIZE (CELLS * sizeof(long))

static int rank;
static char *window, *buffer; /* on a device */
static long cells[CELLS];
static host_win_t *win;

static long cell(int of, size_t i) { return 1000000L * of + (long)i; }

static void fill(char *to, int of) {
    for (size_t i = 0; i < CELLS; i++)
        cells[i] = cell(of, i);
    MUST(host_device_write(to, cells, SIZE));
}

/* Every `every`-th cell from the first on is `of`'s, up to `count` of them; the rest is `rest`'s. */
static void compare(const char *what, long *found, size_t every, size_t count, int of, int rest) {
    for (size_t i = 0; i < CELLS; i++) {
        long wanted = cell(i % every == 0 && i / every < count ? of : rest, i);
        if (found[i] != wanted) {
            fprintf(stderr, "%s: cell %zu is %ld and not %ld\n", what, i, found[i], wanted);
            exit(1);
        }
    }
}

/* Rank 0 puts and gets with buffers in `ours`, while rank 1 waits in a barrier. Each side has every `every`-th cell. */
static void move(char *ours, int on_host, size_t every, int opened) {
    size_t count = CELLS / every;
    const host_layout_t layout = {.magic = HOST_LAYOUT_MAGIC, .size = sizeof layout, .count = count, .length = 1,
                                  .stride = every, .datatype = HOST_INT64};
    for (int gets = 0; gets < 2; gets++) {
        fill(window, 10 + rank);
        if (on_host)
            for (size_t i = 0; i < CELLS; i++)
                ((long *)ours)[i] = cell(20, i);
        else
            fill(ours, 20);
        MUST(host_barrier());
        unsigned long long all = fake_cuda_copies(), of_opened = fake_cuda_copies_of_opened();
        if (rank == 0) {
            MUST(host_win_lock(HOST_LOCK_SHARED, 1, win));
            if (gets)
                MUST(host_get_layout(ours, &layout, 1, 0, &layout, win));
            else
                MUST(host_put_layout(ours, &layout, 1, 0, &layout, win));
            MUST(host_win_flush(1, win));
            all = fake_cuda_copies() - all;
            of_opened = fake_cuda_copies_of_opened() - of_opened;
            /* The fake counts each row of a copy of rows. */
            EXPECT(of_opened == (opened ? every == 1 ? 1 : count : 0));
            EXPECT(!opened || all == of_opened);
            MUST(host_win_unlock(1, win));
            MUST(host_barrier());
        } else {
            MUST(host_barrier());
            EXPECT(!opened || fake_cuda_copies() == all);
        }
        if (rank == 1) {
            MUST(host_device_read(cells, window, SIZE));
            compare("window", cells, every, gets ? 0 : count, 20, 11);
        } else {
            if (on_host)
                memcpy(cells, ours, SIZE);
            else
                MUST(host_device_read(cells, ours, SIZE));
            compare("buffer", cells, every, gets ? count : 0, 11, 20);
        }
        MUST(host_barrier());
    }
}

/* A put, an accumulate by the owner and a get, in this order by flushes. */
static void mix(void) {
    static long ones[CELLS];
    for (size_t i = 0; i < CELLS; i++)
        ones[i] = 1;
    fill(window, 10 + rank);
    fill(buffer, 20);
    MUST(host_barrier());
    if (rank == 0) {
        MUST(host_win_lock_all(win));
        for (int turn = 0; turn < 8; turn++) {
            MUST(host_put(buffer, SIZE, 1, 0, win));
            MUST(host_win_flush(1, win));
            MUST(host_accumulate(ones, CELLS, HOST_INT64, HOST_SUM, 1, 0, win));
            MUST(host_win_flush(1, win));
            MUST(host_get(buffer, SIZE, 1, 0, win));
            MUST(host_win_flush(1, win));
        }
        MUST(host_win_unlock_all(win));
        MUST(host_device_read(cells, buffer, SIZE));
        for (size_t i = 0; i < CELLS; i++)
            EXPECT(cells[i] == cell(20, i) + 8);
    }
    MUST(host_barrier());
}

int main(int count, char **words) {
    EXPECT(count >= 3);
    int opened = strcmp(words[1], "opened") == 0, managed = count > 3;
    CUcontext context;
    CUdevice device;
    CUdeviceptr first, second;
    host_info_t *info = NULL;
    host_comm_t *world = NULL;
    char number[16];
    static long on_host[CELLS];

    MUST(host_init());
    rank = host_rank();
    snprintf(number, sizeof number, "%d", rank * atoi(words[2]));
    DRIVER(cuInit(0));
    DRIVER(cuDeviceGet(&device, atoi(number)));
    DRIVER(cuDevicePrimaryCtxRetain(&context, device));
    DRIVER(cuCtxPushCurrent(context));
    if (managed)
        DRIVER(cuMemAllocManaged(&first, BEFORE + SIZE, CU_MEM_ATTACH_GLOBAL));
    else
        DRIVER(cuMemAlloc(&first, BEFORE + SIZE));
    DRIVER(cuMemAlloc(&second, SIZE));
    window = (char *)(uintptr_t)first + BEFORE;
    buffer = (char *)(uintptr_t)second;

    MUST(host_comm_world(&world));
    MUST(host_info_create(&info));
    MUST(host_info_set(info, "device_num", number));
    MUST(host_win_create_over(world, window, SIZE, sizeof(long), info, &win));
    MUST(host_info_free(&info));
    move(buffer, 0, 1, opened);
    move(buffer, 0, 4, opened);
    move((char *)on_host, 1, 1, opened);
    move((char *)on_host, 1, 4, opened);
    mix();
    /* The memory may go at once: all origins have closed it. The fake tells otherwise. */
    MUST(host_win_free(&win));
    DRIVER(cuMemFree(first));
    MUST(host_finalize());
    DRIVER(cuMemFree(second));
    DRIVER(cuCtxPopCurrent(&context));
    DRIVER(cuDevicePrimaryCtxRelease(device));
    printf("passed\n");
    return 0;
}
