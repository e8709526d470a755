/*
 * Included tasks (if(0), final and mergeable) that block in calls of the host: the parent blocks with them.
 *
 *   included yield         with taskyield in waits, if the runtime yields
 *   included yield slow    over a slow transport
 */
#include "waiting.h"

static int over; /* tasks */

/* The fetched data has arrived when the call returns. */
static void fetch(int64_t *to, int number) {
    host_request_t *request;
    enter();
    MUST(host_rget(to, sizeof *to, next, (uint64_t)number * sizeof *to, win, &request));
    MUST(host_wait(&request));
    __atomic_sub_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
}

static void parent(int number) {
    int64_t wanted = next * 1000 + number, got = -1;
    /* The task is tied, because libomp 14 fails an assertion in untied tasks. */
#pragma omp task if (0) shared(got) firstprivate(number)
    fetch(&got, number);
    CHECK(got == wanted, "if(0): task %d went on with %ld", number, (long)got);

    got = -1;
#pragma omp task if (0) mergeable shared(got) firstprivate(number)
    fetch(&got, number);
    CHECK(got == wanted, "mergeable: task %d went on with %ld", number, (long)got);

    got = -1;
#pragma omp task if (0) final(1) shared(got) firstprivate(number, wanted)
    {
        int64_t inner = -1;
        CHECK(omp_in_final(), "a task with final(1) is not final");
        /* Included, because its parent is final. */
#pragma omp task shared(inner) firstprivate(number)
        fetch(&inner, number);
        CHECK(inner == wanted, "final: task %d went on before its child", number);
        got = inner;
    }
    CHECK(got == wanted, "final: task %d went on with %ld", number, (long)got);
    __atomic_add_fetch(&over, 1, __ATOMIC_SEQ_CST);
}

int main(int argc, char **argv) {
    int provided, yields = is_asked(argc, argv, "yield") && crt_omp_yield_in_waits() == HOST_SUCCESS;
    slow = is_asked(argc, argv, "slow");
    MUST(host_init_thread(HOST_TASK_MULTIPLE, &provided));
    rank = host_rank();
    size = host_size();
    next = (rank + 1) % size;
    int64_t *own;
    MUST(host_win_allocate(TASKS * sizeof(int64_t), 1, &win));
    own = (int64_t *)host_win_base(win);
    for (int number = 0; number < TASKS; number++) {
        own[number] = rank * 1000 + number;
    }
    MUST(host_barrier());
    MUST(host_win_lock_all(win));
#pragma omp parallel
#pragma omp single
    for (int number = 0; number < TASKS; number++) {
#pragma omp task untied firstprivate(number)
        parent(number);
    }
    MUST(host_win_unlock_all(win));
    MUST(host_barrier());
    MUST(host_win_free(&win));
    /* The parent waits with its included task; other tasks of its thread wait only if the runtime does not
     * yield. */
    CHECK(yields || waiting_most <= 2, "%d tasks waited at once on two threads", waiting_most);
    CHECK(!yields || !slow || waiting_most > 2, "%d tasks waited at once", waiting_most);
    CHECK(over == TASKS, "%d of %d tasks ended", over, TASKS);
    if (rank == 0) {
        printf("taskyield in waits: %s; %d included tasks waited at once\n", yields ? "yes" : "no", waiting_most);
    }
    return done("included");
}
