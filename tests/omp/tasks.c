/*
 * Tasks and threads that put, get and wait while others compute, and the calls that report the
 * completion of a request: wait, waitall, waitany, test, a condition, an event.
 *
 *   tasks          in the mode of OMP_EXTERNAL
 *   tasks as-...   in the form for another mode
 *   tasks yield    with taskyield in waits: for runtimes that have it; else the refusal is checked
 *   tasks slow     the same over a transport that takes its time: a wait has to run another task
 */
#include <sched.h>
#include <stdint.h>

#include "common.h"

enum { ITEMS = 48, ROUNDS = 6 };

static host_win_t *win;
static int rank, size, next;
static __thread int waits_here; /* waiting tasks on this thread's stack */
static int ran_inside;          /* tasks that ran while another task of their thread waited */

static int64_t value(int origin, int item, int round) {
    return (int64_t)origin * 1000000 + item * 1000 + round;
}

static uint64_t place(int item) {
    return ((uint64_t)rank * ITEMS + (uint64_t)item) * sizeof(int64_t);
}

/* Writes a number to the next rank, and reads it back. */
static void there_and_back(int item, int round) {
    int64_t out = value(rank, item, round), back = -1;
    host_request_t *request;
    if (waits_here > 0) {
        __atomic_fetch_add(&ran_inside, 1, __ATOMIC_RELAXED);
    }
    MUST(host_rput(&out, sizeof out, next, place(item), win, &request));
    waits_here++;
    MUST(host_wait(&request));
    waits_here--;
    CHECK(request == NULL, "the handle of a request that was waited for is not NULL");
    MUST(host_wait(&request));
    MUST(host_rget(&back, sizeof back, next, place(item), win, &request));
    switch (item % 4) {
    case 0:
        MUST(host_wait(&request));
        break;
    case 1: {
        int over = 0;
        while (!over) {
            MUST(host_test(&request, &over));
        }
        break;
    }
    case 2: {
        crt_cond_t cond = CRT_COND_INIT;
        MUST(host_request_attach(request, &cond));
        MUST(crt_wait(&cond));
        MUST(host_wait(&request));
        break;
    }
    default: {
        host_request_t *two[2] = {NULL, request};
        size_t index = 9;
        MUST(host_waitany(2, two, &index));
        CHECK(index == 1 && two[1] == NULL, "waitany gave %zu", index);
        MUST(host_waitany(2, two, &index));
        CHECK(index == 2, "waitany without requests gave %zu", index);
    }
    }
    CHECK(back == out, "item %d came back as %ld", item, (long)back);
}

static double burn(int turns) {
    double sum = 0;
    for (int turn = 1; turn <= turns; turn++) {
        sum += 1.0 / turn;
    }
    return sum;
}

/* A loop whose iterations communicate: on each thread of the team, or only on the master. */
static void loop(int form) {
    if (form == OMP_EXTERNAL_MASTER) {
        for (int item = 0; item < ITEMS; item++) {
            there_and_back(item, 0);
        }
        return;
    }
#pragma omp parallel for schedule(dynamic, 3)
    for (int item = 0; item < ITEMS; item++) {
        there_and_back(item, 0);
    }
    /* Several threads flush at the same time. */
#pragma omp parallel for schedule(static)
    for (int item = 0; item < ITEMS; item++) {
        int64_t out = value(rank, item, 1), back = -1;
        MUST(host_put(&out, sizeof out, next, place(item), win));
        MUST(host_win_flush(next, win));
        MUST(host_get(&back, sizeof back, next, place(item), win));
        MUST(host_win_flush_all(win));
        CHECK(back == out, "item %d came back as %ld after a flush", item, (long)back);
    }
}

/* Tasks that communicate among tasks that compute. */
static void tasks(int form) {
    double sums[ROUNDS] = {0};
    int told = 0;
#pragma omp parallel
#pragma omp single
    for (int round = 0; round < ROUNDS; round++) {
        for (int item = 0; item < ITEMS; item++) {
            if (form == OMP_EXTERNAL_MASTER) {
                /* The generating thread is the master's thread only if the runtime
                 * guarantees this. */
                continue;
            }
/* The task is untied: a tied task that yields runs only its own children meanwhile. */
#pragma omp task untied firstprivate(item, round)
            there_and_back(item, round);
        }
#pragma omp task firstprivate(round) shared(sums)
        sums[round] = burn(20000);
#pragma omp taskwait
    }
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(sums[round] > 10, "a task did not compute");
    }
    if (form != OMP_EXTERNAL_TASK) {
        return;
    }
    /* A detached get, and a task that depends on it. */
    int64_t back[ITEMS];
#pragma omp parallel
#pragma omp single
    for (int item = 0; item < ITEMS; item++) {
        omp_event_handle_t event;
#pragma omp task detach(event) depend(out : back[item]) firstprivate(item) shared(back)
        {
            host_request_t *request;
            MUST(host_rget(&back[item], sizeof back[item], next, place(item), win, &request));
            MUST(crt_omp_detach(&request, event));
        }
#pragma omp task depend(in : back[item]) firstprivate(item) shared(back, told)
        {
            CHECK(back[item] == value(rank, item, ROUNDS - 1), "a task ran before its event: %ld",
                  (long)back[item]);
            __atomic_fetch_add(&told, 1, __ATOMIC_RELAXED);
        }
    }
    CHECK(told == ITEMS, "%d of %d dependent tasks ran", told, ITEMS);
}

/* Two threads that signal each other. */
static void signals(void) {
    static crt_cond_t ping = CRT_COND_INIT, pong = CRT_COND_INIT;
#pragma omp parallel num_threads(2)
    if (omp_get_num_threads() == 2) {
        for (int round = 0; round < 2000; round++) {
            if (omp_get_thread_num() == 0) {
                MUST(crt_signal(&ping));
                MUST(crt_wait(&pong));
            } else {
                MUST(crt_wait(&ping));
                MUST(crt_signal(&pong));
            }
        }
    }
}

static void misuse(void) {
    crt_cond_t cond = CRT_COND_INIT;
    MUST(crt_signal(&cond));
    CHECK(crt_signal(&cond) == HOST_ERR_MISUSE, "two signals in a row");
    MUST(crt_wait(&cond));
    CHECK(crt_wait(NULL) == HOST_ERR_ARG, "a wait of NULL");
    CHECK(crt_signal(NULL) == HOST_ERR_ARG, "a signal of NULL");
    crt_hooks_t hooks = {.magic = CRT_HOOKS_MAGIC, .size = sizeof hooks, .claims = CRT_CAN_SUSPEND};
    CHECK(crt_set_hooks(&hooks) == HOST_ERR_HOOKS, "hooks without functions were taken");
    CHECK(strstr(host_error_text(), "suspend") != NULL, "no word of what is missing: %s",
          host_error_text());
    int before = omp_get_external();
    omp_set_external((before + 1) % 3);
    CHECK(omp_get_external() == before, "the mode changed after host_init");
    /* A window with an open request is not freed. */
    int64_t number = 0;
    host_request_t *request;
    MUST(host_rget(&number, sizeof number, next, 0, win, &request));
    host_win_t *same = win;
    CHECK(host_win_free(&same) == HOST_ERR_STATE, "freed under a request");
    MUST(host_wait(&request));
    /* A request that is complete from the start ends once, like any other request. */
    host_request_t *empty[2];
    size_t index = 9;
    int over = 0;
    MUST(host_rput(&number, 0, next, 0, win, &empty[0]));
    MUST(host_rget(&number, 0, next, 0, win, &empty[1]));
    MUST(host_waitany(1, &empty[1], &index));
    CHECK(index == 0 && empty[1] == NULL, "waitany of nothing to do gave %zu", index);
    MUST(host_waitany(2, empty, &index));
    CHECK(index == 0 && empty[0] == NULL, "waitany of nothing to do gave %zu", index);
    MUST(host_waitany(2, empty, &index));
    CHECK(index == 2, "waitany without requests gave %zu", index);
    MUST(host_rput(&number, 0, next, 0, win, &empty[0]));
    MUST(host_test(&empty[0], &over));
    CHECK(over && empty[0] == NULL, "a test of nothing to do");
    CHECK(host_rget(&number, sizeof number, size, 0, win, &request) == HOST_ERR_WIN, "a wrong rank");
    CHECK(host_rput(NULL, 8, next, 0, win, &request) == HOST_ERR_ARG, "a NULL buffer");
}

int main(int argc, char **argv) {
    int provided;
    omp_set_external(77);
    int mode = omp_get_external(), slow = is_asked(argc, argv, "slow"), yields = 0, code = HOST_SUCCESS;
    if (slow || is_asked(argc, argv, "yield")) {
        code = crt_omp_yield_in_waits();
        yields = code == HOST_SUCCESS;
    }
    MUST(host_init_thread(mode == OMP_EXTERNAL_TASK     ? HOST_TASK_MULTIPLE
                          : mode == OMP_EXTERNAL_THREAD ? HOST_THREAD_MULTIPLE
                                                        : HOST_THREAD_FUNNELED,
                          &provided));
    rank = host_rank();
    size = host_size();
    next = (rank + 1) % size;
    int form = form_of(argc, argv, mode);
    /* Without hooks, a waiting task blocks its thread, and the level reports this. */
    CHECK(mode != OMP_EXTERNAL_TASK || provided == (yields ? HOST_TASK_MULTIPLE : HOST_THREAD_MULTIPLE),
          "level %d", provided);
    if (slow || is_asked(argc, argv, "yield")) {
        if (code != HOST_SUCCESS) {
            code = crt_omp_yield_in_waits();
            CHECK(code == HOST_ERR_HOOKS, "%d", code);
            CHECK(strstr(host_error_text(), "taskyield") != NULL, "%s", host_error_text());
        }
        if (rank == 0) {
            printf("taskyield in waits: %s\n", code == HOST_SUCCESS ? "yes" : host_error_text());
        }
    }
    MUST(host_win_allocate((size_t)size * ITEMS * sizeof(int64_t), 1, &win));
    MUST(host_win_lock_all(win));
    loop(form);
    tasks(form);
    if (slow && yields && form == OMP_EXTERNAL_TASK) {
        CHECK(ran_inside > 0, "no task ran while another waited");
        printf("%d tasks ran while another of their thread waited\n", ran_inside);
    }
    misuse();
    if (form != OMP_EXTERNAL_MASTER) {
        signals();
    }
    MUST(host_win_unlock_all(win));
    MUST(host_barrier());
    MUST(host_win_free(&win));
    return done("tasks");
}
