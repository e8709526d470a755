/*
 * Calls that break the thread level are refused where the host checks (host_check): by threads other
 * than the one that joined under funneled, and not at all under multiple.
 */
#include "common.h"

int main(void) {
    host_win_t *win;
    int provided, refused = 0, right = 0;
    MUST(host_init_thread(HOST_THREAD_FUNNELED, &provided));
    int multiple = provided >= HOST_THREAD_MULTIPLE;
    MUST(host_win_allocate(64, 1, &win));
    MUST(host_win_lock_all(win));
#pragma omp parallel num_threads(2) reduction(+ : refused, right)
    for (int turn = 0; turn < omp_get_num_threads(); turn++) {
        if (turn == omp_get_thread_num()) {
            int code = host_win_flush_all(win);
            refused += code == HOST_ERR_LEVEL && strstr(host_error_text(), "thread level") != NULL;
            right += code == HOST_SUCCESS;
        }
#pragma omp barrier
    }
    CHECK(right == (multiple ? 2 : 1), "%d calls were taken", right);
    CHECK(refused == (multiple ? 0 : 1), "%d calls were refused", refused);
    MUST(host_win_unlock_all(win));
    MUST(host_win_free(&win));
    return done("levels");
}
