/* A program polls only with calls of windows, in each possible way, while a long message to it waits for its
 * progress. The awaited event comes only after the message has left the sender. The script that runs this
 * program bounds the time. */
#include "check.h"

enum { BIG = 4 << 20 };

typedef enum { SYNC, FETCH, GET, LOCK, RGET, TEST, WAYS } Way;

static MPI_Win win;
static int64_t *base;

/* Whether the other rank has set this rank's flag. */
static int is_set(Way way)
{
    int64_t found = 0, none = 0;
    int over = 0;
    MPI_Request request;
    switch (way) {
    case SYNC:
        MPI_Win_sync(win);
        found = *(volatile int64_t *) base;
        break;
    case FETCH:
        MPI_Fetch_and_op(&none, &found, MPI_INT64_T, 0, 0, MPI_NO_OP, win);
        MPI_Win_flush(0, win);
        break;
    case GET:
        MPI_Get(&found, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win);
        MPI_Win_flush(0, win);
        break;
    case LOCK:
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        MPI_Get(&found, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win);
        MPI_Win_unlock(0, win);
        break;
    case RGET:
        MPI_Rget(&found, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        break;
    default:
        MPI_Win_test(win, &over);
        return over;
    }
    return 0 != found;
}

static void poll_by(Way way)
{
    static char message[BIG];
    int64_t one = 1;
    MPI_Group world, other;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &(int) {1 - world_rank}, &other);
    *base = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    int locks_all = LOCK != way && TEST != way;
    if (locks_all) MPI_Win_lock_all(0, win);
    if (0 == world_rank) {
        MPI_Request request;
        MPI_Irecv(message, BIG, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
        if (TEST == way) MPI_Win_post(other, 0, win);
        while (!is_set(way)) continue;
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK((char) way == message[BIG - 1], "way %d: %d", (int) way, message[BIG - 1]);
    } else {
        message[BIG - 1] = (char) way;
        if (TEST == way) MPI_Win_start(other, 0, win);
        MPI_Send(message, BIG, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        if (LOCK == way) MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        MPI_Accumulate(&one, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, MPI_REPLACE, win);
        if (LOCK == way) MPI_Win_unlock(0, win);
        if (TEST == way) MPI_Win_complete(win);
    }
    if (locks_all) MPI_Win_unlock_all(win);
    MPI_Group_free(&world);
    MPI_Group_free(&other);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(2 == world_size, "run with 2 ranks");
    for (int flavour = 0; flavour < 2; ++flavour) {
        int64_t memory = 0;
        if (flavour) MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
        else MPI_Win_create(base = &memory, 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        for (int way = 0; way < WAYS; ++way) poll_by((Way) way);
        MPI_Win_free(&win);
    }
    finish("osc_polls");
    return 0;
}
