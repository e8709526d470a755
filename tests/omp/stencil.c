/*
 * A stencil over a ring of ranks: each rank has a row of blocks, each block is a task, and the tasks
 * at the ends need the neighbours' cells of the previous step. One-sided gets fetch the halos, once a
 * put of the neighbour has announced the cells of that step.
 *
 * Three forms of the same program differ only in the waits and the waiting threads. Each form works in
 * its own mode and in the later modes (as-master, as-thread, as-task):
 *
 *   master  the master thread exchanges halos between parallel loops
 *   thread  a thread of the team exchanges them while the others compute the inner blocks
 *   task    tasks fetch them, detached where the runtime can; dependences do the rest
 *
 * The integers of every cell are compared with a serial computation.
 */
#include <sched.h>
#include <stdint.h>

#include "common.h"

enum { BLOCKS = 8, CELLS = 32, STEPS = 24, ROW = BLOCKS * CELLS };

/* The memory that neighbours read: two rows, used in turn, and the last readable step for each
 * neighbour. */
typedef struct {
    int64_t rows[2][ROW];
    int64_t step_of_left;
    int64_t step_of_right;
} shared_t;

static shared_t *mine;
static host_win_t *win;
static int rank, size, left, right;
static int64_t halos[2][2]; /* by parity of the step: left, right */

static int64_t next_value(int64_t a, int64_t b, int64_t c) {
    return (a + 2 * b + c) % 1000003;
}

static int64_t first_value(int at) {
    return (int64_t)at * at % 1009;
}

/* Computes one block of a step from the row of the step before and its halos. */
static void compute(int step, int block) {
    const int64_t *from = mine->rows[step & 1];
    int64_t *to = mine->rows[(step + 1) & 1];
    const int64_t *halo = halos[step & 1];
    for (int at = block * CELLS; at < (block + 1) * CELLS; at++) {
        int64_t before = at == 0 ? halo[0] : from[at - 1];
        int64_t after = at == ROW - 1 ? halo[1] : from[at + 1];
        to[at] = next_value(before, from[at], after);
    }
}

/* Announces to a neighbour this rank's cells of a step. A rank's right neighbour needs the rank's
 * right cell, so each neighbour has its own word, named by the side of this rank. */
static void announce(int to, size_t word, const int64_t *step) {
    host_request_t *request;
    MUST(host_rput(step, sizeof *step, to, word, win, &request));
    MUST(host_wait(&request));
}

/* Waits until a neighbour has announced a step; polls this rank's own word by gets, so that the wait
 * is a blocking call. */
static void await(size_t word, int64_t step) {
    int64_t seen = -1;
    while (seen < step) {
        host_request_t *request;
        MUST(host_rget(&seen, sizeof seen, rank, word, win, &request));
        MUST(host_wait(&request));
        if (seen < step) {
            sched_yield();
        }
    }
}

static void fetch(int side, int step, host_request_t **request) {
    int from = side == 0 ? left : right;
    size_t cell = side == 0 ? ROW - 1 : 0;
    size_t at = offsetof(shared_t, rows) + ((size_t)(step & 1) * ROW + cell) * sizeof(int64_t);
    await(side == 0 ? offsetof(shared_t, step_of_left) : offsetof(shared_t, step_of_right), step);
    MUST(host_rget(&halos[step & 1][side], sizeof(int64_t), from, at, win, request));
}

static void exchange(int step) {
    int64_t now = step;
    host_request_t *requests[2];
    announce(left, offsetof(shared_t, step_of_right), &now);
    announce(right, offsetof(shared_t, step_of_left), &now);
    fetch(0, step, &requests[0]);
    fetch(1, step, &requests[1]);
    MUST(host_waitall(2, requests));
}

static void run_master(void) {
    for (int step = 0; step < STEPS; step++) {
        exchange(step);
#pragma omp parallel for schedule(static)
        for (int block = 0; block < BLOCKS; block++) {
            compute(step, block);
        }
    }
}

static void run_threads(void) {
    for (int step = 0; step < STEPS; step++) {
#pragma omp parallel
        {
#pragma omp single nowait
            exchange(step);
#pragma omp for schedule(dynamic)
            for (int block = 1; block < BLOCKS - 1; block++) {
                compute(step, block);
            }
#pragma omp sections
            {
#pragma omp section
                compute(step, 0);
#pragma omp section
                compute(step, BLOCKS - 1);
            }
        }
    }
}

static void run_tasks(void) {
    static char blocks[2][BLOCKS]; /* names for dependences: a block of an even or odd row */
    static char sides[2][2];
    static char announced[2];
    static int64_t numbers[STEPS];
#pragma omp parallel
#pragma omp single
    for (int step = 0; step < STEPS; step++) {
        char *now = blocks[step & 1], *next = blocks[(step + 1) & 1];
        numbers[step] = step;
        /* A row is announced when its end is computed. The row is overwritten two steps later; by
         * then the neighbours have announced the step between, so they have fetched from the
         * row. */
#pragma omp task depend(in : now[0]) depend(inout : announced[0]) firstprivate(step)
        announce(left, offsetof(shared_t, step_of_right), &numbers[step]);
#pragma omp task depend(in : now[BLOCKS - 1]) depend(inout : announced[1]) firstprivate(step)
        announce(right, offsetof(shared_t, step_of_left), &numbers[step]);
        for (int side = 0; side < 2; side++) {
            char *halo = &sides[step & 1][side];
            char *end = &now[side == 0 ? 0 : BLOCKS - 1];
            omp_event_handle_t event;
            /* The task follows this rank's own announcement, so its wait delays no other
             * rank. */
#pragma omp task depend(out : halo[0]) depend(in : end[0], announced[side]) detach(event)         \
    firstprivate(step, side)
            {
                host_request_t *request;
                fetch(side, step, &request);
                MUST(crt_omp_detach(&request, event));
            }
        }
        for (int block = 0; block < BLOCKS; block++) {
            int before = block == 0 ? 0 : block - 1;
            int after = block == BLOCKS - 1 ? block : block + 1;
            if (block == 0 || block == BLOCKS - 1) {
                char *halo = &sides[step & 1][block == 0 ? 0 : 1];
#pragma omp task depend(in : now[before], now[block], now[after], halo[0]) \
    depend(out : next[block]) firstprivate(step, block)
                compute(step, block);
            } else {
#pragma omp task depend(in : now[before], now[block], now[after]) depend(out : next[block])       \
    firstprivate(step, block)
                compute(step, block);
            }
        }
    }
}

static void verify(void) {
    int total = ROW * size;
    int64_t *now = malloc(sizeof(int64_t) * (size_t)total);
    int64_t *next = malloc(sizeof(int64_t) * (size_t)total);
    for (int at = 0; at < total; at++) {
        now[at] = first_value(at);
    }
    for (int step = 0; step < STEPS; step++) {
        for (int at = 0; at < total; at++) {
            next[at] = next_value(now[(at + total - 1) % total], now[at], now[(at + 1) % total]);
        }
        int64_t *swap = now;
        now = next;
        next = swap;
    }
    int wrong = 0;
    for (int at = 0; at < ROW; at++) {
        wrong += mine->rows[STEPS & 1][at] != now[rank * ROW + at];
    }
    CHECK(wrong == 0, "%d of %d cells are wrong after %d steps", wrong, ROW, STEPS);
    free(now);
    free(next);
}

int main(int argc, char **argv) {
    int provided = -1;
    int mode = omp_get_external();
    int wanted = mode == OMP_EXTERNAL_MASTER   ? HOST_THREAD_FUNNELED
                 : mode == OMP_EXTERNAL_THREAD ? HOST_THREAD_MULTIPLE
                                               : HOST_TASK_MULTIPLE;
    MUST(host_init_thread(wanted, &provided));
    /* No task waits for a later task of its rank, so the program needs no hooks. */
    int given = wanted == HOST_TASK_MULTIPLE ? HOST_THREAD_MULTIPLE : wanted;
    CHECK(provided == given, "level %d provided for %s mode", provided, mode_name());
    rank = host_rank();
    size = host_size();
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    MUST(host_win_allocate(sizeof(shared_t), 1, &win));
    mine = host_win_base(win);
    mine->step_of_left = mine->step_of_right = -1;
    for (int at = 0; at < ROW; at++) {
        mine->rows[0][at] = first_value(rank * ROW + at);
    }
    MUST(host_barrier());
    MUST(host_win_lock_all(win));
    switch (form_of(argc, argv, mode)) {
    case OMP_EXTERNAL_MASTER:
        run_master();
        break;
    case OMP_EXTERNAL_THREAD:
        run_threads();
        break;
    default:
        run_tasks();
    }
    MUST(host_win_unlock_all(win));
    verify();
    MUST(host_barrier());
    MUST(host_win_free(&win));
    return done("stencil");
}
