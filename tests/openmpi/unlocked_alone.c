/* A released lock goes to other ranks although the releasing rank does not enter MPI again. Rank 1 ends an
 * epoch to rank 2 and then waits outside MPI, until a file of rank 3 says that it had the same lock, or until
 * a waiting rank has returned. */
#include "outside.h"

/* Ranks 0 and 1 are on one node, and 2 and 3 on another, because osc/rdma keeps the locks of a node in
 * separate memory. Rank 0 stays in MPI, because it has the window's global lock. */
enum { RANKS = 4, ORIGIN = 1, TARGET = 2, NEXT = 3, BYTES = 4096 };

static char memory[BYTES];
static MPI_Win win;

enum { SHARED, EXCLUSIVE, ACCUMULATES, ALL, LOCKS };

static void epoch(int kind)
{
    int64_t value = 1;
    if (ALL == kind) {
        MPI_Win_lock_all(0, win);
    } else {
        MPI_Win_lock(SHARED == kind ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, TARGET, 0, win);
    }
    MPI_Put(&value, 8, MPI_BYTE, TARGET, 64, 8, MPI_BYTE, win);
    if (ACCUMULATES == kind) {
        MPI_Accumulate(&value, 1, MPI_INT64_T, TARGET, 128, 1, MPI_INT64_T, MPI_SUM, win);
    }
    ALL == kind ? MPI_Win_unlock_all(win) : MPI_Win_unlock(TARGET, win);
}

static void locks(int kind)
{
    static const char *const names[LOCKS] = {"a shared lock", "an exclusive lock", "an exclusive lock with an accumulate", "lock_all"};
    int token = 0;
    if (ORIGIN == world_rank) {
        epoch(kind);
        say("unlocked");
        wait_outside("locked", names[kind]);
    } else if (NEXT == world_rank) {
        wait_outside("unlocked", names[kind]);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, TARGET, 0, win);
        MPI_Win_unlock(TARGET, win);
        say("locked");
        MPI_Send(&token, 1, MPI_INT, TARGET, 0, MPI_COMM_WORLD);
    } else if (TARGET == world_rank) {
        MPI_Recv(&token, 1, MPI_INT, NEXT, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Rank 2 exposes its memory, and then stays outside MPI until rank 1 could begin its
 * epoch. */
static void post(void)
{
    MPI_Group world, others;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    int other = ORIGIN == world_rank ? TARGET : ORIGIN;
    MPI_Group_incl(world, 1, &other, &others);
    if (TARGET == world_rank) {
        MPI_Win_post(others, 0, win);
        wait_outside("started", "post");
        MPI_Win_wait(win);
    } else if (ORIGIN == world_rank) {
        int64_t value = 2;
        MPI_Win_start(others, 0, win);
        say("started");
        MPI_Put(&value, 8, MPI_BYTE, TARGET, 64, 8, MPI_BYTE, win);
        MPI_Win_complete(win);
    }
    MPI_Group_free(&others);
    MPI_Group_free(&world);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The last rank comes to a fence when the others wait there, and does not enter MPI again until they have
 * left the fence. */
static void fence(void)
{
    static const char *const fenced[RANKS] = {"fenced by 0", "", "fenced by 2", "fenced by 3"};
    int64_t value = 3;
    if (ORIGIN == world_rank) {
        usleep(200000);
        MPI_Put(&value, 8, MPI_BYTE, TARGET, 64, 8, MPI_BYTE, win);
    }
    MPI_Win_fence(0, win);
    if (ORIGIN == world_rank) {
        for (int rank = 0; rank < RANKS; ++rank) {
            if (rank != ORIGIN) {
                wait_outside(fenced[rank], "fence");
            }
        }
    } else {
        say(fenced[world_rank]);
    }
    MPI_Win_fence(0, win);
}

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(RANKS == world_size, "run with %d ranks", RANKS);
    if (0 == world_rank) make_folder();
    MPI_Bcast(folder, sizeof(folder), MPI_CHAR, 0, MPI_COMM_WORLD);
    win = window(memory, BYTES);
    for (int kind = 0; kind < LOCKS; ++kind) {
        locks(kind);
    }
    post();
    MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
    for (int i = 0; i < 20; ++i) {
        fence();
    }
    MPI_Win_free(&win);
    if (0 == world_rank) {
        rmdir(folder);
    }
    finish("unlocked_alone");
    return 0;
}
