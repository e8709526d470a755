/* A provider with a limit of regions, like hardware: further registrations are refused with an error, and
 * earlier regions still work. As soon as there is room, the next registration succeeds and serves transfers.
 * The program runs over the provider `lab` with LAB_REGIONS set. */
#include "check.h"
#include <sys/mman.h>
#include <unistd.h>

enum { CHUNKS = 40 };

static char *memory;
static size_t page, step;

/* The chunks are attached in ascending order, because Open MPI 4.1.4 leaves its table of regions in disorder
 * if one in the middle is refused. */
static char *chunk(int i)
{
    return memory + (size_t) i * step;
}

/* Puts a value into a chunk of the right neighbour and reads it back. */
static void transfer(MPI_Win win, MPI_Aint base, int i, int64_t value)
{
    int64_t back = -1;
    MPI_Aint at = base + (MPI_Aint) ((size_t) i * step);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, win);
    MPI_Put(&value, 1, MPI_INT64_T, next, at, 1, MPI_INT64_T, win);
    MPI_Win_flush(next, win);
    MPI_Get(&back, 1, MPI_INT64_T, next, at, 1, MPI_INT64_T, win);
    MPI_Win_unlock(next, win);
    CHECK(back == value, "chunk %d gave %ld, not %ld", i, (long) back, (long) value);
}

/* Attaches as many chunks as possible; returns the minimum over the ranks, because the rank with the
 * shared state has room for fewer. */
static int attach_all(MPI_Win win, int most)
{
    int attached = 0, least;
    while (attached < CHUNKS && MPI_SUCCESS == MPI_Win_attach(win, chunk(attached), page)) {
        ++attached;
    }
    CHECK(attached > 0 && attached <= most, "%d regions were attached where %d fit", attached, most);
    MPI_Allreduce(&attached, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    CHECK(MPI_SUCCESS != MPI_Win_attach(win, chunk(attached), page), "there is no room, still");
    for (int i = least; i < attached; ++i) {
        MPI_Win_detach(win, chunk(i));
    }
    return least;
}

static void attached_regions(int most)
{
    int n;
    MPI_Aint mine, all[64];
    MPI_Win win;
    CHECK(world_size <= 64, "too many ranks");
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Get_address(memory, &mine);
    MPI_Allgather(&mine, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD);

    n = attach_all(win, most);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < n; ++i) {
        transfer(win, all[next], i, 100 * i + world_rank);
    }
    MPI_Barrier(MPI_COMM_WORLD);

    MPI_Win_detach(win, chunk(0)); /* makes room for one chunk */
    CHECK(MPI_SUCCESS == MPI_Win_attach(win, chunk(CHUNKS), page), "there is room, but none was given");
    MPI_Barrier(MPI_COMM_WORLD);
    transfer(win, all[next], CHUNKS, 7000 + world_rank);
    transfer(win, all[next], n - 1, 8000 + world_rank);
    MPI_Barrier(MPI_COMM_WORLD);

    MPI_Win_detach(win, chunk(CHUNKS));
    for (int i = 1; i < n; ++i) {
        MPI_Win_detach(win, chunk(i));
    }
    MPI_Win_free(&win);
    if (0 == world_rank) {
        printf("no_room: %d regions of %d fit\n", n, CHUNKS);
    }
}

/* More windows than fit, one after another: each uses the room of a freed window. */
static void windows_in_turn(void)
{
    for (int i = 0; i < CHUNKS; ++i) {
        MPI_Win win = window(chunk(i), page);
        int64_t value = 10 * i + world_rank, seen;
        MPI_Win_fence(0, win);
        MPI_Put(&value, 1, MPI_INT64_T, next, 8, 1, MPI_INT64_T, win);
        MPI_Win_fence(0, win);
        memcpy(&seen, chunk(i) + 8, sizeof(seen));
        CHECK(seen == 10 * i + last, "window %d holds %ld", i, (long) seen);
        MPI_Win_free(&win);
    }
}

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    const char *limit = getenv("LAB_REGIONS");
    int most = limit ? atoi(limit) : 0;
    CHECK(most > 0 && most < CHUNKS, "LAB_REGIONS must say how many regions fit, fewer than %d", CHUNKS);
    page = (size_t) sysconf(_SC_PAGESIZE);
    step = 2 * page;
    memory = mmap(NULL, (CHUNKS + 1) * step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED, "mmap");
    attached_regions(most);
    windows_in_turn();
    attached_regions(most);
    munmap(memory, (CHUNKS + 1) * step);
    finish("no_room");
    return 0;
}
