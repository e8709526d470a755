/* Wrong or rare uses of windows of the component osc: types and buffers that are freed early, windows that
 * end in callbacks, many windows that threads make at the same time, a child process, invalid arguments
 * without any check. No use may crash, hang or give a wrong value. `osc_abuse live` leaves windows to
 * MPI_Finalize, one of them with an incomplete put. */
#include "check.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 64, THREADS = 4, WINDOWS = 16 };

/* Types are freed while operations that they described are outstanding, and other types get the same
 * addresses. */
static void types_freed_early(void)
{
    int64_t memory[WORDS] = {0}, out[8], in[8] = {0}, sums[8], *base = memory;
    MPI_Win win;
    MPI_Win_create(base, sizeof memory, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    served(win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 8; ++i) {
        out[i] = world_rank * 100 + i;
        sums[i] = 1;
    }
    for (int turn = 1; turn <= 4; ++turn) {
        MPI_Datatype type;
        MPI_Type_vector(8, 1, turn, MPI_INT64_T, &type);
        MPI_Type_commit(&type);
        MPI_Put(out, 8, MPI_INT64_T, next, 0, 1, type, win);
        MPI_Type_free(&type);
        MPI_Win_fence(0, win);
        for (int i = 0; i < 8; ++i) CHECK(memory[i * turn] == last * 100 + i, "turn %d, %d: %ld", turn, i, (long) memory[i * turn]);
        MPI_Win_fence(0, win);
        MPI_Type_vector(8, 1, turn, MPI_INT64_T, &type);
        MPI_Type_commit(&type);
        MPI_Accumulate(sums, 8, MPI_INT64_T, next, 0, 1, type, MPI_SUM, win);
        MPI_Type_free(&type);
        MPI_Win_fence(0, win);
        for (int i = 0; i < 8; ++i) CHECK(memory[i * turn] == last * 100 + i + 1, "turn %d, %d: %ld", turn, i, (long) memory[i * turn]);
        MPI_Type_vector(8, 1, turn, MPI_INT64_T, &type);
        MPI_Type_commit(&type);
        MPI_Get(in, 8, MPI_INT64_T, next, 0, 1, type, win);
        MPI_Type_free(&type);
        MPI_Win_fence(0, win);
        for (int i = 0; i < 8; ++i) CHECK(in[i] == world_rank * 100 + i + 1, "turn %d, %d: %ld", turn, i, (long) in[i]);
    }
    MPI_Win_free(&win);
}

/* An attribute of another object ends a window. */
static int end_window(MPI_Comm comm, int key, void *value, void *extra)
{
    MPI_Win *win = value;
    (void) comm;
    (void) key;
    *(int *) extra += 1;
    return MPI_Win_free(win);
}

static void freed_in_a_callback(void)
{
    static int ended;
    int key;
    int64_t *base;
    MPI_Win win;
    MPI_Comm comm;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end_window, &key, &ended);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Comm_set_attr(comm, key, &win);
    MPI_Comm_free(&comm);
    CHECK(1 == ended && MPI_WIN_NULL == win, "%d windows ended", ended);
    MPI_Comm_free_keyval(&key);
}

static MPI_Comm comms[THREADS];

/* Windows over a communicator of this thread, whose ranks are numbered in another order than those of other
 * threads. */
static void *many(void *number)
{
    int own = (int) (intptr_t) number, rank, size;
    int64_t *bases[WINDOWS], one = 1;
    MPI_Win wins[WINDOWS];
    MPI_Comm_rank(comms[own], &rank);
    MPI_Comm_size(comms[own], &size);
    for (int i = 0; i < WINDOWS; ++i) {
        if (i % 2) MPI_Win_allocate(8, 8, MPI_INFO_NULL, comms[own], bases + i, wins + i);
        else MPI_Win_create(bases[i] = calloc(1, 8), 8, 8, MPI_INFO_NULL, comms[own], wins + i);
        *bases[i] = 0;
    }
    MPI_Barrier(comms[own]);
    for (int i = 0; i < WINDOWS; ++i) {
        MPI_Win_lock_all(0, wins[i]);
        for (int target = 0; target < size; ++target) MPI_Accumulate(&one, 1, MPI_INT64_T, target, 0, 1, MPI_INT64_T, MPI_SUM, wins[i]);
        MPI_Win_unlock_all(wins[i]);
    }
    MPI_Barrier(comms[own]);
    for (int i = 0; i < WINDOWS; ++i) {
        CHECK(*bases[i] == size, "thread %d, window %d: %ld", own, i, (long) *bases[i]);
        int64_t *base = bases[i];
        MPI_Win_free(wins + i);
        if (0 == i % 2) free(base);
    }
    return NULL;
}

static void made_by_threads(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; ++i) {
        int colour = i < 2 ? 0 : world_rank % 2, order = i % 2 ? world_rank : -world_rank;
        MPI_Comm_split(MPI_COMM_WORLD, colour, order, comms + i);
    }
    for (intptr_t i = 0; i < THREADS; ++i) pthread_create(threads + i, NULL, many, (void *) i);
    for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; ++i) MPI_Comm_free(comms + i);
}

/* A child process ends without MPI, in the middle of an epoch. */
static void a_child(void)
{
    int64_t *base, x = world_rank + 1;
    MPI_Win win;
    MPI_Win_create(base = calloc(2, 8), 16, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Put(&x, 1, MPI_INT64_T, next, 0, 1, MPI_INT64_T, win);
    pid_t child = fork();
    if (0 == child) _exit(7);
    int status = 0;
    CHECK(child > 0 && child == waitpid(child, &status, 0) && 7 == WEXITSTATUS(status), "status %d", status);
    MPI_Put(&x, 1, MPI_INT64_T, next, 1, 1, MPI_INT64_T, win);
    MPI_Win_fence(0, win);
    CHECK(base[0] == last + 1 && base[1] == last + 1, "%ld %ld", (long) base[0], (long) base[1]);
    MPI_Win_free(&win);
    free(base);
}

/* Arguments that Open MPI passes on because it never checks them, or does not check them with
 * mpi_param_check 0. */
static void bad_arguments(void)
{
    int64_t *base, x = 1;
    MPI_Win win;
    MPI_Win_allocate(8 * WORDS, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    for (int i = 0; i < WORDS; ++i) base[i] = i;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    int ranks[] = {world_size, world_size + 1000000, -77, INT32_MAX};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; ++i) {
        int class = class_of(MPI_Put(&x, 1, MPI_INT64_T, ranks[i], 0, 1, MPI_INT64_T, win));
        CHECK(MPI_ERR_RANK == class, "a put to rank %d: class %d", ranks[i], class);
        class = class_of(MPI_Win_flush(ranks[i], win));
        CHECK(MPI_ERR_RANK == class, "a flush of rank %d: class %d", ranks[i], class);
    }
    MPI_Aint places[] = {WORDS, -1, INT64_MAX, INT64_MIN, INT64_MAX / 8, INT64_MAX / 8 + 1, (MPI_Aint) 1 << 61};
    for (size_t i = 0; i < sizeof places / sizeof *places; ++i) {
        int class = class_of(MPI_Accumulate(&x, 1, MPI_INT64_T, next, places[i], 1, MPI_INT64_T, MPI_SUM, win));
        CHECK(MPI_SUCCESS != class, "an accumulate at %ld was taken", (long) places[i]);
        class = class_of(MPI_Get(&x, 1, MPI_INT64_T, next, places[i], 1, MPI_INT64_T, win));
        CHECK(MPI_SUCCESS != class, "a get at %ld was taken", (long) places[i]);
    }
    /* The sizes of the two sides differ. */
    int class = class_of(MPI_Put(&x, 1, MPI_INT64_T, next, 0, 2, MPI_INT64_T, win));
    CHECK(MPI_SUCCESS != class, "a put of one word into two was taken");
    class = class_of(MPI_Accumulate(&x, 1, MPI_INT64_T, next, 0, 3, MPI_INT64_T, MPI_SUM, win));
    CHECK(MPI_SUCCESS != class, "an accumulate of one word to three was taken");
    double real = 1, swapped = 0;
    class = class_of(MPI_Compare_and_swap(&real, &real, &swapped, MPI_DOUBLE, next, 0, win));
    CHECK(MPI_SUCCESS != class, "a compare-and-swap of a double was taken");
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < WORDS; ++i) CHECK(base[i] == i, "word %d is %ld", i, (long) base[i]);
    /* An epoch is open: the window stays, and can be freed after the epoch. */
    MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
    class = class_of(MPI_Win_free(&win));
    CHECK(MPI_ERR_RMA_SYNC == class && MPI_WIN_NULL != win, "free in an epoch: class %d", class);
    MPI_Win_unlock(next, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_MULTIPLE);
    if (argc > 1 && 0 == strcmp(argv[1], "live")) {
        static int64_t memory[4], x = 3;
        MPI_Win one, two;
        MPI_Win_create(memory, sizeof memory, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &one);
        MPI_Win_create(memory + 2, 16, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &two);
        MPI_Win_lock_all(0, two);
        MPI_Put(&x, 1, MPI_INT64_T, next, 0, 1, MPI_INT64_T, two);
        finish("osc_abuse");
        return 0;
    }
    types_freed_early();
    freed_in_a_callback();
    made_by_threads();
    a_child();
    bad_arguments();
    finish("osc_abuse");
    return 0;
}
