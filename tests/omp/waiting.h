/* The work of the suspending runtimes' tasks: many tasks wait for communication, on few threads. */
#ifndef WAITING_H
#define WAITING_H

#include <sys/syscall.h>
#include <unistd.h>

#include "common.h"

enum { TASKS = 64, ROUNDS = 4, TRIES = 20000 };

static host_win_t *win;
static int rank, size, next, slow;
static int waiting, waiting_most; /* tasks inside a call, now and at most */
static int moved;                 /* waits that returned on another thread */

/* The number of the system thread. A compiler may reuse an earlier result of
 * pthread_self. */
static long this_thread(void) {
    return syscall(SYS_gettid);
}

/* Counts the tasks that are inside a call of the host at the same time. */
static void enter(void) {
    int now = __atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
    int most = __atomic_load_n(&waiting_most, __ATOMIC_SEQ_CST);
    while (now > most &&
           !__atomic_compare_exchange_n(&waiting_most, &most, now, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
}

static void leave(long before) {
    __atomic_sub_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
    if (this_thread() != before) {
        __atomic_fetch_add(&moved, 1, __ATOMIC_RELAXED);
    }
}

/* Makes a put and waits for its request, then makes a get and waits with a condition. */
static void exchange(int number, int round) {
    int64_t out = rank * 100000 + number * 100 + round % 100, back = -1;
    uint64_t at = ((uint64_t)rank * TASKS + (uint64_t)number) * sizeof out;
    host_request_t *request;
    crt_cond_t cond = CRT_COND_INIT;
    long thread = this_thread();
    enter();
    MUST(host_rput(&out, sizeof out, next, at, win, &request));
    MUST(host_wait(&request));
    leave(thread);
    thread = this_thread();
    enter();
    MUST(host_rget(&back, sizeof back, next, at, win, &request));
    MUST(host_request_attach(request, &cond));
    MUST(crt_wait(&cond));
    MUST(host_wait(&request));
    leave(thread);
    CHECK(back == out, "task %d read %ld instead of %ld", number, (long)back, (long)out);
}

static void communicate(int number) {
    for (int round = 0; round < ROUNDS; round++) {
        exchange(number, round);
        if (!slow || number == 0) {
            MUST(host_win_flush(next, win));
        }
    }
    if (number < 2) {
        /* Two tasks, which may share a thread, each wait for the other ranks. */
        MUST(host_barrier());
    }
}

/* Waits until a wait has returned on another thread. */
static void move_somewhere(int number) {
    for (int round = 0; round < TRIES && __atomic_load_n(&moved, __ATOMIC_RELAXED) == 0; round++) {
        exchange(number, round);
    }
}

/* Joins the job in task mode, for which hooks are set. */
static void begin(int argc, char **argv) {
    int provided;
    slow = is_asked(argc, argv, "slow");
    MUST(host_init_thread(HOST_TASK_MULTIPLE, &provided));
    CHECK(provided == HOST_TASK_MULTIPLE, "level %d", provided);
    rank = host_rank();
    size = host_size();
    next = (rank + 1) % size;
    MUST(host_win_allocate((size_t)size * TASKS * sizeof(int64_t), 1, &win));
    MUST(host_win_lock_all(win));
}

static int end(const char *program) {
    MUST(host_win_unlock_all(win));
    MUST(host_barrier());
    MUST(host_win_free(&win));
    if (rank == 0) {
        printf("%d of %d tasks waited at once; %d waits returned on another thread\n", waiting_most, TASKS, moved);
    }
    CHECK(!slow || waiting_most > TASKS / 2, "%d of %d tasks waited at once", waiting_most, TASKS);
    return done(program);
}

#endif
