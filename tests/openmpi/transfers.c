/* Put and get of every size class, in every synchronisation, contiguous and not, with and without requests. */
#include "check.h"

enum { SIZE = 5 << 20 };

static unsigned char *memory, *buffer;

static unsigned char pattern(size_t i, int seed)
{
    return (unsigned char) (i * 31 + (i >> 8) * 7 + (size_t) seed * 101 + 1);
}

static void fill(unsigned char *at, size_t size, int seed)
{
    for (size_t i = 0; i < size; ++i) {
        at[i] = pattern(i, seed);
    }
}

static void expect(const unsigned char *at, size_t size, int seed, const char *what)
{
    for (size_t i = 0; i < size; ++i) {
        CHECK(at[i] == pattern(i, seed), "%s of %zu bytes: byte %zu is %u", what, size, i, at[i]);
    }
}

static void sizes(MPI_Win win, int target)
{
    static const size_t all[] = {1, 3, 8, 64, 127, 4095, 4096, 4097, 32768, 65537, 1 << 20, (4 << 20) + 5};
    for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); ++k) {
        size_t size = all[k], offset = 13 * k;
        int seed = world_rank * 16 + (int) k;
        fill(buffer, size, seed);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
        MPI_Put(buffer, (int) size, MPI_BYTE, target, (MPI_Aint) offset, (int) size, MPI_BYTE, win);
        MPI_Win_flush(target, win);
        memset(buffer, 0, size);
        MPI_Get(buffer, (int) size, MPI_BYTE, target, (MPI_Aint) offset, (int) size, MPI_BYTE, win);
        MPI_Win_unlock(target, win);
        expect(buffer, size, seed, "put and get");
    }
}

/* A put must be visible in the target's memory once the origin's flush returned, not only to a later get. */
static void visible(MPI_Win win, int target, int source)
{
    for (int round = 0; round < 50; ++round) {
        size_t size = round % 2 ? 8 : 70000;
        fill(buffer, size, world_rank + round);
        MPI_Win_lock_all(0, win);
        MPI_Put(buffer, (int) size, MPI_BYTE, target, 0, (int) size, MPI_BYTE, win);
        MPI_Win_flush_all(win);
        MPI_Win_unlock_all(win);
        MPI_Barrier(MPI_COMM_WORLD);
        expect(memory, size, source + round, "visible put");
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void requests(MPI_Win win, int target)
{
    MPI_Request many[64];
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
    for (int i = 0; i < 64; ++i) {
        fill(buffer + i * 1000, 1000, i + world_rank);
        MPI_Rput(buffer + i * 1000, 1000, MPI_BYTE, target, i * 1000, 1000, MPI_BYTE, win, &many[i]);
    }
    MPI_Waitall(64, many, MPI_STATUSES_IGNORE);
    MPI_Win_flush(target, win);
    memset(buffer, 0, 64000);
    for (int i = 0; i < 64; ++i) {
        MPI_Rget(buffer + i * 1000, 1000, MPI_BYTE, target, i * 1000, 1000, MPI_BYTE, win, &many[i]);
    }
    MPI_Waitall(64, many, MPI_STATUSES_IGNORE);
    MPI_Win_unlock(target, win);
    for (int i = 0; i < 64; ++i) {
        expect(buffer + i * 1000, 1000, i + world_rank, "request");
    }
}

static void strided(MPI_Win win, int target)
{
    enum { COUNT = 200, STEP = 5 };
    MPI_Datatype every;
    int source[COUNT], back[COUNT];
    MPI_Type_vector(COUNT, 1, STEP, MPI_INT, &every);
    MPI_Type_commit(&every);
    for (int i = 0; i < COUNT; ++i) {
        source[i] = i * 3 + world_rank;
    }
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
    MPI_Put(source, COUNT, MPI_INT, target, 0, 1, every, win);
    MPI_Win_flush(target, win);
    MPI_Get(back, COUNT, MPI_INT, target, 0, 1, every, win);
    MPI_Win_unlock(target, win);
    for (int i = 0; i < COUNT; ++i) {
        CHECK(back[i] == source[i], "element %d is %d", i, back[i]);
    }
    MPI_Type_free(&every);
}

static void started_and_posted(MPI_Win win, int target, int source)
{
    MPI_Group world, to, from;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &target, &to);
    MPI_Group_incl(world, 1, &source, &from);
    int64_t value = 77 + world_rank;
    MPI_Win_post(from, 0, win);
    MPI_Win_start(to, 0, win);
    MPI_Put(&value, 1, MPI_INT64_T, target, 0, 1, MPI_INT64_T, win);
    MPI_Win_complete(win);
    MPI_Win_wait(win);
    int64_t seen;
    memcpy(&seen, memory, sizeof(seen));
    CHECK(seen == 77 + source, "post-start-complete-wait left %lld", (long long) seen);
    MPI_Group_free(&to);
    MPI_Group_free(&from);
    MPI_Group_free(&world);
}

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    memory = calloc(1, SIZE);
    buffer = calloc(1, SIZE);
    CHECK(memory && buffer, "no memory");
    MPI_Win win = window(memory, SIZE);
    for (int step = 0; step < world_size; ++step) {
        sizes(win, (world_rank + step) % world_size); /* step 0 is the rank itself */
        MPI_Barrier(MPI_COMM_WORLD);
    }
    visible(win, next, last);
    requests(win, next);
    MPI_Barrier(MPI_COMM_WORLD);
    strided(win, next);
    MPI_Barrier(MPI_COMM_WORLD);
    started_and_posted(win, next, last);
    MPI_Win_free(&win);
    free(memory);
    free(buffer);
    finish("transfers");
    return 0;
}
