/* Dynamic distribution of tasks: a counter at rank 0 is the number of the next task, and each rank takes
 * tasks by fetch-and-add until none is left.
 *
 *   host-stub launch -n 4 --provider shm -- ./counter
 */
#include "example.h"

#define TASKS 1000

/* At rank 0: the next task, the number of finished tasks, and the sum of their results. */
enum { NEXT, DONE, SUM, WORDS };

static int64_t take(host_win_t *win) {
    int64_t one = 1, task = 0;
    MUST(host_fetch_and_op(&one, &task, HOST_INT64, HOST_SUM, 0, NEXT, win));
    MUST(host_win_flush(0, win));
    return task;
}

int main(void) {
    host_win_t *win = NULL;
    MUST(host_init());
    int rank = host_rank();
    MUST(host_win_allocate(WORDS * sizeof(int64_t), sizeof(int64_t), &win));
    MUST(host_barrier());

    int64_t done = 0, sum = 0;
    MUST(host_win_lock_all(win));
    for (int64_t task = take(win); task < TASKS; task = take(win)) {
        done++;
        sum += task * task;
    }
    MUST(host_accumulate(&done, 1, HOST_INT64, HOST_SUM, 0, DONE, win));
    MUST(host_accumulate(&sum, 1, HOST_INT64, HOST_SUM, 0, SUM, win));
    MUST(host_win_unlock_all(win));
    MUST(host_barrier());

    if (rank == 0) {
        const int64_t *total = host_win_base(win);
        EXPECT(total[DONE] == TASKS && total[SUM] == (int64_t)(TASKS - 1) * TASKS * (2 * TASKS - 1) / 6);
    }
    printf("rank %d did %d of %d tasks\n", rank, (int)done, TASKS);
    MUST(host_win_free(&win));
    MUST(host_finalize());
    printf("passed\n");
    return 0;
}
