/*
 * Failing progress (from a get of 13 bytes on) ends the waits of threads that sleep while the progress
 * thread makes progress. A wait for a signal continues, because other threads may signal.
 */
#include "common.h"

enum { BREAKING = 13 };

int main(void) {
    int provided, waiting = 0;
    static char bytes[64];
    static crt_cond_t cond = CRT_COND_INIT;
    host_win_t *win;
    host_request_t *request, *breaking;
    MUST(host_init_thread(HOST_THREAD_MULTIPLE, &provided));
    MUST(host_win_allocate(64, 1, &win));
    MUST(host_win_lock_all(win));
    MUST(host_rget(bytes, 8, 0, 0, win, &request));
#pragma omp parallel num_threads(3) shared(waiting)
    switch (omp_get_thread_num()) {
    case 0: {
        struct timespec enough = {0, 300000000};
        while (__atomic_load_n(&waiting, __ATOMIC_ACQUIRE) < 2) {
        }
        /* The threads sleep by now. */
        nanosleep(&enough, NULL);
        MUST(host_rget(bytes + 16, BREAKING, 0, 0, win, &breaking));
        break;
    }
    case 1: {
        __atomic_add_fetch(&waiting, 1, __ATOMIC_RELEASE);
        int code = host_wait(&request);
        CHECK(code == HOST_ERR_TRANSPORT, "%d: %s", code, host_error_text());
        MUST(crt_signal(&cond));
        break;
    }
    default:
        __atomic_add_fetch(&waiting, 1, __ATOMIC_RELEASE);
        MUST(crt_wait(&cond));
    }
    if (checks_failed == 0) {
        printf("trouble: told\n");
        fflush(stdout);
    }
    /* Outstanding operations never end, so the process cannot leave the job. */
    _Exit(checks_failed == 0 ? 0 : 1);
}
