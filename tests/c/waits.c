/* A job for traces whose ranks wait for each other; the first argument selects the kind of wait. Rank 1
 * sleeps without any call for as many milliseconds as the second argument says (200). */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "example.h"

static void sleep_for(long milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void add_to(int rank, host_win_t *win) {
    int64_t one = 1, old = 0;
    MUST(host_fetch_and_op(&one, &old, HOST_INT64, HOST_SUM, rank, 0, win));
    MUST(host_win_flush(rank, win));
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    long pause = argc > 2 ? atol(argv[2]) : 200;
    host_win_t *win = NULL;
    MUST(host_init());
    int rank = host_rank();
    MUST(host_win_allocate(sizeof(int64_t), sizeof(int64_t), &win));
    if (strcmp(what, "lock") == 0) {
        /* Rank 1 keeps the lock of rank 0 while it sleeps. */
        if (rank == 1)
            MUST(host_win_lock(HOST_LOCK_EXCLUSIVE, 0, win));
        MUST(host_barrier());
        if (rank == 1) {
            sleep_for(pause);
            MUST(host_win_unlock(0, win));
        } else if (rank == 0) {
            MUST(host_win_lock(HOST_LOCK_EXCLUSIVE, 0, win));
            MUST(host_win_unlock(0, win));
        }
    } else {
        MUST(host_win_lock_all(win));
        for (int i = 0; i < 20; i++)
            add_to(1 - rank % 2, win);
        MUST(host_barrier());
        if (strcmp(what, "sleep") == 0) {
            if (rank == 1)
                sleep_for(pause);
            else if (rank == 0)
                add_to(1, win);
        } else if (strcmp(what, "die") == 0 && rank == 1) {
            /* The pause is long enough for the earlier records to be written. */
            sleep_for(pause);
            raise(SIGKILL);
        }
        MUST(host_win_unlock_all(win));
    }
    MUST(host_barrier());
    MUST(host_win_free(&win));
    MUST(host_finalize());
    printf("rank %d passed\n", rank);
    return 0;
}
