/* Threads make the program's first windows at the same time; they call one window of the component osc at the same time and
 * wait for their own requests; windows on overlapping communicators; hints. */
#include "check.h"

#include <pthread.h>

enum { THREADS = 3, TIMES = 500, WINDOWS = 16 };

static MPI_Win win;
static int64_t *base;

static void *work(void *number)
{
    int own = (int) (intptr_t) number;
    for (int i = 0; i < TIMES; ++i) {
        int target = (world_rank + i) % world_size;
        int64_t one = 1, found = -1;
        MPI_Request request;
        MPI_Rget(&found, 1, MPI_INT64_T, target, 8 + own, 1, MPI_INT64_T, win, &request);
        if (i % 2) MPI_Wait(&request, MPI_STATUS_IGNORE);
        else for (int done = 0; !done;) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        CHECK(found == target * 100 + own, "thread %d: %ld", own, (long) found);
        /* Types of this thread and of others are made and freed. */
        int64_t pair[2] = {-1, -1};
        int stride = 1 + (i + own) % 2;
        MPI_Datatype apart;
        MPI_Type_vector(2, 1, stride, MPI_INT64_T, &apart);
        MPI_Type_commit(&apart);
        MPI_Get(pair, 2, MPI_INT64_T, target, 8, 1, apart, win);
        MPI_Win_flush(target, win);
        MPI_Type_free(&apart);
        CHECK(pair[0] == target * 100 && pair[1] == target * 100 + stride, "thread %d: %ld %ld", own, (long) pair[0], (long) pair[1]);
        MPI_Accumulate(&one, 1, MPI_INT64_T, target, own, 1, MPI_INT64_T, MPI_SUM, win);
        if (0 == i % 16) MPI_Win_flush(target, win);
    }
    MPI_Win_flush_all(win);
    return NULL;
}

/* A window over a communicator of this thread. Another thread meets the same processes meanwhile, here or there. */
static void *make_first(void *comm)
{
    MPI_Win first;
    int64_t *memory;
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Win_allocate(8, 8, MPI_INFO_NULL, *(MPI_Comm *) comm, &memory, &first);
    MPI_Win_get_name(first, name, &length);
    CHECK(0 == strncmp(name, "ofi_rs", 6), "a first window of '%s'", name);
    MPI_Win_free(&first);
    return NULL;
}

static void make_first_windows(void)
{
    MPI_Comm comms[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; ++i) MPI_Comm_dup(MPI_COMM_WORLD, comms + i);
    for (int i = 0; i < THREADS; ++i) pthread_create(threads + i, NULL, make_first, comms + i);
    for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; ++i) MPI_Comm_free(comms + i);
}

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_MULTIPLE);
    make_first_windows();
    for (int flavour = 0; flavour < 2; ++flavour) {
        if (flavour) MPI_Win_allocate(128, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
        else MPI_Win_create(base = calloc(16, 8), 128, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        memset(base, 0, 128);
        for (int i = 0; i < THREADS; ++i) base[8 + i] = world_rank * 100 + i;
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock_all(0, win);
        pthread_t threads[THREADS];
        for (intptr_t i = 0; i < THREADS; ++i) pthread_create(threads + i, NULL, work, (void *) i);
        for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
        MPI_Win_unlock_all(win);
        MPI_Barrier(MPI_COMM_WORLD);
        int64_t sum = 0, all;
        for (int i = 0; i < THREADS; ++i) sum += base[i];
        MPI_Allreduce(&sum, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
        CHECK(all == (int64_t) world_size * THREADS * TIMES, "%ld", (long) all);
        MPI_Win_free(&win);
    }
    /* Windows of overlapping communicators that live at the same time. */
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, world_rank / 2, 0, &half);
    MPI_Win windows[WINDOWS];
    int64_t *memory[WINDOWS];
    for (int i = 0; i < WINDOWS; ++i) {
        MPI_Comm over = i % 3 == 0 ? MPI_COMM_WORLD : i % 3 == 1 ? half : MPI_COMM_SELF;
        MPI_Win_allocate(8, 8, MPI_INFO_NULL, over, memory + i, windows + i);
        *memory[i] = 0;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    int64_t one = 1;
    for (int i = 0; i < WINDOWS; ++i) {
        MPI_Win_lock_all(0, windows[i]);
        MPI_Accumulate(&one, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, MPI_SUM, windows[i]);
        MPI_Win_unlock_all(windows[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    int half_rank, half_size;
    MPI_Comm_rank(half, &half_rank);
    MPI_Comm_size(half, &half_size);
    for (int i = 0; i < WINDOWS; ++i) {
        int expected[3] = {0 == world_rank ? world_size : 0, 0 == half_rank ? half_size : 0, 1};
        CHECK(*memory[i] == expected[i % 3], "window %d: %ld", i, (long) *memory[i]);
        MPI_Win_free(windows + i);
    }
    MPI_Comm_free(&half);
    /* A hint of every rank, and a hint of some ranks only. */
    for (int all = 0; all < 2; ++all) {
        MPI_Info info;
        MPI_Info_create(&info);
        MPI_Info_set(info, "no_locks", all || 0 == world_rank ? "true" : "false");
        MPI_Info_set(info, "accumulate_ordering", "none");
        MPI_Win_allocate(8, 8, info, MPI_COMM_WORLD, &base, &win);
        MPI_Info_free(&info);
        MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
        int class = class_of(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
        if (MPI_SUCCESS == class) MPI_Win_unlock(0, win);
        int refused = all || 1 == world_size;
        CHECK(refused ? MPI_ERR_RMA_SYNC == class : MPI_SUCCESS == class, "a lock where %s say no_locks: class %d", all ? "all" : "some", class);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_free(&win);
    }
    finish("osc_threads");
}
