/* Device memory that windows refuse, and unusual memory: managed and pinned memory, memory of another
 * context, an allocation in the place of another, memory that is freed while a window uses it, windows in
 * another place than their info says, buffers that end beyond their allocation. */
#include "device.h"

enum { BYTES = 64 << 10 };

static char *bytes(int rank, int salt)
{
    char *made = malloc(BYTES);
    for (int i = 0; i < BYTES; i++) made[i] = (char) (i * 11 + rank * 5 + salt);
    return made;
}

static MPI_Info device_number(int number)
{
    char text[16];
    MPI_Info info;
    MPI_Info_create(&info);
    snprintf(text, sizeof text, "%d", number);
    MPI_Info_set(info, "device_num", text);
    return info;
}

/* A window with host memory; a buffer's bytes are put to it and read back. */
static void round_trip(const char *what, char *buffer)
{
    char *mine = bytes(world_rank, 1), *base;
    Memory memory = {buffer, BYTES, 1};
    MPI_Win win;
    MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    fill(&memory, 0, mine, BYTES);
    MPI_Win_fence(0, win);
    MPI_Put(buffer, BYTES, MPI_BYTE, next, 0, BYTES, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    char *theirs = bytes(last, 1);
    CHECK(0 == memcmp(base, theirs, BYTES), "%s", what);
    char *other = bytes(world_rank, 2);
    memcpy(base, other, BYTES);
    MPI_Win_fence(0, win);
    MPI_Get(buffer, BYTES, MPI_BYTE, next, 0, BYTES, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    char *wanted = bytes(next, 2);
    same(what, &memory, wanted);
    MPI_Win_free(&win);
    free(mine);
    free(theirs);
    free(other);
    free(wanted);
}

static void managed_and_pinned(void)
{
    CUdeviceptr managed;
    void *pinned;
    DRIVER(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
    round_trip("managed memory", (char *) managed);
    MPI_Win win;
    MPI_Win_create((void *) managed, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    char *mine = bytes(world_rank, 3), *theirs = bytes(last, 3);
    MPI_Win_fence(0, win);
    MPI_Put(mine, BYTES, MPI_BYTE, next, 0, BYTES, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    CHECK(0 == memcmp((void *) managed, theirs, BYTES), "a window of managed memory");
    MPI_Win_free(&win);
    DRIVER(cuMemFree(managed));
    DRIVER(cuMemAllocHost(&pinned, BYTES));
    memcpy(pinned, mine, BYTES);
    MPI_Win_create(pinned, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Put(pinned, BYTES / 2, MPI_BYTE, next, BYTES / 2, BYTES / 2, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    CHECK(0 == memcmp((char *) pinned + BYTES / 2, theirs, BYTES / 2), "pinned memory");
    MPI_Win_free(&win);
    DRIVER(cuMemFreeHost(pinned));
    free(mine);
    free(theirs);
}

/* Memory was freed, and other memory has its address: of the same length, and shorter. */
static void freed(void)
{
    CUdeviceptr first, other;
    for (int times = 0; times < 5; times++) {
        DRIVER(cuMemAlloc(&first, BYTES));
        round_trip("the first allocation", (char *) first);
        DRIVER(cuMemFree(first));
        DRIVER(cuMemAlloc(&other, BYTES + 4096 * (size_t) times));
        round_trip("the allocation after it", (char *) other);
        DRIVER(cuMemFree(other));
    }
}

/* Memory of a context that the program made, while the device's primary context is current. */
static void another_context(void)
{
    CUcontext other, popped;
    CUdeviceptr buffer, base;
    MPI_Win win;
    DRIVER(cuCtxCreate(&other, 0, device));
    DRIVER(cuMemAlloc(&buffer, BYTES));
    DRIVER(cuMemAlloc(&base, BYTES));
    DRIVER(cuCtxPopCurrent(&popped));
    round_trip("memory of another context", (char *) buffer);
    char *mine = bytes(world_rank, 6), *theirs = bytes(last, 6);
    Memory memory_of = {(char *) base, BYTES, 1}, from = {(char *) buffer, BYTES, 1};
    fill(&from, 0, mine, BYTES);
    MPI_Win_create((void *) base, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Put((void *) buffer, BYTES, MPI_BYTE, next, 0, BYTES, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    same("a window of another context", &memory_of, theirs);
    MPI_Win_free(&win);
    DRIVER(cuMemFree(buffer));
    DRIVER(cuMemFree(base));
    free(mine);
    free(theirs);
}

/* The program frees memory while a window uses it: only the operations on it fail. */
static void freed_under_a_window(void)
{
    Memory gone = memory(BYTES, 1), there = memory(BYTES, 1);
    char *mine = bytes(world_rank, 7), *theirs = bytes(last, 7);
    MPI_Win win, other;
    MPI_Win_create(gone.at, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_create(there.at, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &other);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    release(&gone);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    int put = MPI_Put(mine, BYTES, MPI_BYTE, next, 0, BYTES, MPI_BYTE, win), flushed = MPI_Win_flush(next, win);
    CHECK(MPI_SUCCESS != put || MPI_SUCCESS != flushed, "a put to memory that was freed");
    MPI_Win_unlock_all(win);
    /* Until all ranks have tried: what a rank opens or allocates next may lie at the address of the freed memory. */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, other);
    CHECK(MPI_SUCCESS == MPI_Put(mine, BYTES, MPI_BYTE, next, 0, BYTES, MPI_BYTE, other), "a put to other memory");
    CHECK(MPI_SUCCESS == MPI_Win_unlock_all(other), "unlock_all");
    MPI_Barrier(MPI_COMM_WORLD);
    same("the other window", &there, theirs);
    MPI_Win_free(&other);
    MPI_Win_free(&win);
    release(&there);
    free(mine);
    free(theirs);
}

/* Windows that cannot be made on any rank. */
static void windows(void)
{
    Memory memory_of = memory(BYTES, 1);
    char *base;
    MPI_Win win;
    MPI_Info info = device_number(99), host = device_number(-1), first = device_number(0);
    int class = class_of(MPI_Win_allocate(BYTES, 1, world_rank == 0 ? info : MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    CHECK(MPI_ERR_WIN == class, "device 99: %d", class);
    CHECK(MPI_SUCCESS != MPI_Win_create(memory_of.at, BYTES, 1, host, MPI_COMM_WORLD, &win), "memory of a device as the host's");
    CHECK(MPI_SUCCESS != MPI_Win_create(memory_of.at, 2 * BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), "more than the allocation");
    char *of_host = malloc(BYTES);
    CHECK(MPI_SUCCESS != MPI_Win_create(of_host, BYTES, 1, first, MPI_COMM_WORLD, &win), "memory of the host as a device's");
    /* This window can be made. */
    CHECK(MPI_SUCCESS == MPI_Win_create(memory_of.at, BYTES, 1, first, MPI_COMM_WORLD, &win), "a window");
    served(win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    /* A buffer ends beyond its allocation; the epoch stays open. */
    Memory few = memory(100, 1);
    char *mine = bytes(world_rank, 4), *theirs = bytes(last, 4), *found = malloc(BYTES);
    fill(&few, 0, mine, 100);
    MPI_Win_lock_all(0, win);
    CHECK(MPI_SUCCESS != MPI_Put(few.at, 101, MPI_BYTE, next, 0, 101, MPI_BYTE, win), "a buffer of 100 bytes");
    CHECK(MPI_SUCCESS != MPI_Put(few.at, 100, MPI_BYTE, next, BYTES - 99, 100, MPI_BYTE, win), "beyond the window");
    CHECK(MPI_SUCCESS == MPI_Put(few.at, 100, MPI_BYTE, next, BYTES - 100, 100, MPI_BYTE, win), "a put");
    CHECK(MPI_SUCCESS == MPI_Win_unlock_all(win), "unlock_all");
    MPI_Barrier(MPI_COMM_WORLD);
    take(&memory_of, 0, found, BYTES);
    CHECK(0 == memcmp(found + BYTES - 100, theirs, 100), "the bytes of the put");
    MPI_Win_free(&win);
    /* The attached range ends beyond its allocation. */
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    CHECK(MPI_SUCCESS != MPI_Win_attach(win, memory_of.at, 2 * BYTES), "more than the allocation");
    CHECK(MPI_SUCCESS == MPI_Win_attach(win, memory_of.at, BYTES), "attach");
    CHECK(MPI_SUCCESS == MPI_Win_detach(win, memory_of.at), "detach");
    MPI_Win_free(&win);
    MPI_Info_free(&info);
    MPI_Info_free(&host);
    MPI_Info_free(&first);
    release(&few);
    release(&memory_of);
    free(of_host);
    free(mine);
    free(theirs);
    free(found);
}

/* At level 1, windows and calls refuse device memory; host memory still works. */
static void level_1(void)
{
    Memory memory_of = memory(BYTES, 1);
    char *base;
    MPI_Win win;
    MPI_Info info = device_number(0);
    CHECK(MPI_SUCCESS != MPI_Win_allocate(BYTES, 1, info, MPI_COMM_WORLD, &base, &win), "a window on a device");
    CHECK(MPI_SUCCESS != MPI_Win_create(memory_of.at, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), "memory of a device");
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    CHECK(MPI_SUCCESS != MPI_Win_attach(win, memory_of.at, BYTES), "attach");
    MPI_Win_free(&win);
    MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    char *mine = bytes(world_rank, 5), *theirs = bytes(last, 5);
    MPI_Win_fence(0, win);
    int class = class_of(MPI_Put(memory_of.at, BYTES, MPI_BYTE, next, 0, BYTES, MPI_BYTE, win));
    CHECK(MPI_ERR_ARG == class, "a put: %d", class);
    CHECK(MPI_SUCCESS != MPI_Fetch_and_op(memory_of.at, memory_of.at + 8, MPI_INT64_T, next, 0, MPI_SUM, win), "fetch_and_op");
    CHECK(MPI_SUCCESS == MPI_Put(mine, BYTES, MPI_BYTE, next, 0, BYTES, MPI_BYTE, win), "a put of the host");
    MPI_Win_fence(0, win);
    CHECK(0 == memcmp(base, theirs, BYTES), "the bytes of the host");
    MPI_Win_free(&win);
    MPI_Info_free(&info);
    release(&memory_of);
    free(mine);
    free(theirs);
}

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (argc > 1 && 0 == strcmp(argv[1], "off")) {
        /* Windows of the host still work, and no window is on a device. */
        begin_device();
        MPI_Info info = device_number(0);
        char *base;
        MPI_Win win;
        CHECK(MPI_SUCCESS != MPI_Win_allocate(BYTES, 1, info, MPI_COMM_WORLD, &base, &win), "a window on a device");
        MPI_Info_free(&info);
        CHECK(MPI_SUCCESS == MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win), "a window");
        served(win);
        MPI_Win_free(&win);
    } else if (argc > 1 && 0 == strcmp(argv[1], "level")) {
        begin_device();
        level_1();
    } else {
        begin_device();
        managed_and_pinned();
        another_context();
        freed();
        freed_under_a_window();
        windows();
    }
    end_device();
    finish("osc_misplaced");
}
