/* Windows that are made and freed: freed with outstanding operations, which complete first; made again over
 * memory that was unmapped and mapped anew, which no stale registration may serve; many at the same time;
 * dynamic; and on communicators of one rank. With --behind, memory alone is unmapped, by calls to the kernel
 * that Open MPI's hooks do not see. A stale registration is then used, and a check of pages must detect
 * this. */
#define _GNU_SOURCE /* syscall */
#include "check.h"
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static void freed_in_flight(void)
{
    enum { SIZE = 1 << 20 };
    char *memory = calloc(1, SIZE), *buffer = malloc(SIZE);
    for (int round = 1; round <= 20; ++round) {
        MPI_Win win = window(memory, SIZE);
        memset(buffer, round + world_rank, SIZE);
        MPI_Win_fence(0, win);
        for (int i = 0; i < 16; ++i) {
            MPI_Put(buffer + i * (SIZE / 16), SIZE / 16, MPI_BYTE, next, i * (SIZE / 16), SIZE / 16, MPI_BYTE, win);
        }
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        MPI_Win_free(&win);
        for (int i = 0; i < SIZE; i += 997) {
            CHECK(memory[i] == (char) (round + last), "byte %d is %d in round %d", i, memory[i], round);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    free(memory);
    free(buffer);
}

/* Every other way to end an epoch, immediately followed by the end of the window. Open MPI releases its own
 * lock by an atomic that may still be outstanding then. */
static void unlocked_in_flight(void)
{
    enum { PART = 4096, SIZE = 64 * PART };
    char *memory = calloc(1, SIZE), *buffer = malloc(PART);
    MPI_Request requests[8];
    CHECK(memory && buffer && world_size <= 8, "no memory, or more than 8 ranks");
    for (int round = 1; round <= 60; ++round) {
        MPI_Win win = window(memory, SIZE);
        memset(buffer, round + world_rank, PART);
        for (int target = 0; target < world_size; ++target) { /* each rank has its own place in every window */
            MPI_Aint at = (MPI_Aint) world_rank * 8 * PART;
            if (round % 3 == 0) {
                MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
            } else if (round % 3 == 1) {
                MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
            } else if (0 == target) {
                MPI_Win_lock_all(0, win);
            }
            for (int i = 0; i < 8; ++i) {
                if (round % 3 < 2) {
                    MPI_Rput(buffer, PART, MPI_BYTE, target, at + i * PART, PART, MPI_BYTE, win, &requests[i]);
                } else {
                    MPI_Put(buffer, PART, MPI_BYTE, target, at + i * PART, PART, MPI_BYTE, win);
                }
            }
            if (round % 3 < 2) {
                MPI_Win_unlock(target, win);
                MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
            } else if (target == world_size - 1) {
                MPI_Win_unlock_all(win);
            }
        }
        MPI_Win_free(&win);
        for (int origin = 0; origin < world_size; ++origin) {
            for (int i = 0; i < 8 * PART; i += 61) {
                char got = memory[origin * 8 * PART + i];
                CHECK(got == (char) (round + origin), "byte %d of rank %d is %d in round %d", i, origin, got, round);
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    free(memory);
    free(buffer);
}

static void mapped_anew(int behind)
{
    enum { SIZE = 1 << 20 };
    char *place = NULL;
    for (int round = 0; round < 20; ++round) {
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | (place ? MAP_FIXED : 0);
        char *memory = behind ? (char *) syscall(SYS_mmap, place, SIZE, PROT_READ | PROT_WRITE, flags, -1, 0)
                              : mmap(place, SIZE, PROT_READ | PROT_WRITE, flags, -1, 0);
        CHECK(memory != MAP_FAILED, "mmap");
        place = memory; /* the same address each time, with other pages */
        MPI_Win win = window(memory, SIZE);
        int32_t value = 1000 * round + world_rank, back = -1;
        MPI_Win_fence(0, win);
        MPI_Put(&value, 1, MPI_INT32_T, next, SIZE - 8, 1, MPI_INT32_T, win);
        MPI_Win_fence(0, win);
        memcpy(&back, memory + SIZE - 8, sizeof(back));
        CHECK(back == 1000 * round + last, "round %d left %d", round, back);
        MPI_Win_free(&win);
        CHECK(0 == (behind ? syscall(SYS_munmap, memory, SIZE) : munmap(memory, SIZE)), "munmap");
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void many_windows(void)
{
    enum { N = 100 };
    static int64_t cells[N];
    MPI_Win wins[N];
    for (int i = 0; i < N; ++i) {
        wins[i] = window(&cells[i], sizeof(cells[i]));
        MPI_Win_fence(0, wins[i]);
    }
    for (int i = 0; i < N; ++i) {
        int64_t value = i * 10 + world_rank;
        MPI_Put(&value, 1, MPI_INT64_T, next, 0, 1, MPI_INT64_T, wins[i]);
        MPI_Win_fence(0, wins[i]);
        CHECK(cells[i] == i * 10 + last, "window %d holds %ld", i, (long) cells[i]);
    }
    for (int i = 0; i < N; ++i) {
        MPI_Win_free(&wins[i]);
    }
}

/* With 4.1 and any transport, osc/rdma waits forever for a lock that it holds itself, when it looks up a
 * region of a dynamic window on another node. */
static int dynamic_would_hang(void)
{
    MPI_Comm node;
    int on_node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &on_node);
    MPI_Comm_free(&node);
    return OMPI_MAJOR_VERSION < 5 && on_node < world_size;
}

static void dynamic(void)
{
    enum { N = 1000 };
    int32_t *memory = calloc(N, sizeof(*memory)), value[N];
    MPI_Aint mine, all[64];
    MPI_Win win;
    CHECK(world_size <= 64, "too many ranks");
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, memory, N * sizeof(*memory));
    MPI_Get_address(memory, &mine);
    MPI_Allgather(&mine, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD);
    for (int i = 0; i < N; ++i) {
        value[i] = i + world_rank;
    }
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, win);
    MPI_Put(value, N, MPI_INT32_T, next, all[next], N, MPI_INT32_T, win);
    MPI_Win_unlock(next, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, world_rank, 0, win);
    for (int i = 0; i < N; ++i) {
        CHECK(memory[i] == i + last, "element %d is %d", i, memory[i]);
    }
    MPI_Win_unlock(world_rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_detach(win, memory);
    MPI_Win_free(&win);
    free(memory);
}

static void alone(void)
{
    int64_t cell = 5, add = 3, old = 0;
    MPI_Win win;
    MPI_Win_create(&cell, sizeof(cell), 1, MPI_INFO_NULL, MPI_COMM_SELF, &win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Fetch_and_op(&add, &old, MPI_INT64_T, 0, 0, MPI_SUM, win);
    MPI_Win_unlock(0, win);
    CHECK(old == 5 && cell == 8, "%ld and %ld", (long) old, (long) cell);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    if (argc > 1 && 0 == strcmp(argv[1], "--behind")) {
        mapped_anew(1);
        finish("window_life");
        return 0;
    }
    alone();
    freed_in_flight();
    unlocked_in_flight();
    mapped_anew(0);
    many_windows();
    if (!dynamic_would_hang()) {
        dynamic();
    } else if (0 == world_rank) {
        printf("window_life: skipped dynamic windows: Open MPI %d.%d locks itself out on several nodes\n",
               OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION);
    }
    finish("window_life");
    return 0;
}
