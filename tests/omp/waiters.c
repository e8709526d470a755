/*
 * Two untied tasks wait for signals, and a third task sends both signals. If a wait blocks only its task,
 * this works on a team of any size above one. If a wait blocks its thread, the two waits occupy a whole team
 * of two. The provided level must then report this, and the program gives each waiter its own thread.
 */
#include <unistd.h>

#include "common.h"

enum { ROUNDS = 50 };

static crt_cond_t first = CRT_COND_INIT, second = CRT_COND_INIT;
static int over;

static void as_tasks(void) {
#pragma omp parallel num_threads(2)
#pragma omp single
    {
#pragma omp task untied
        {
            MUST(crt_wait(&first));
            __atomic_add_fetch(&over, 1, __ATOMIC_RELAXED);
        }
#pragma omp task untied
        {
            MUST(crt_wait(&second));
            __atomic_add_fetch(&over, 1, __ATOMIC_RELAXED);
        }
#pragma omp task untied
        {
            MUST(crt_signal(&first));
            MUST(crt_signal(&second));
        }
    }
}

static void as_threads(void) {
#pragma omp parallel num_threads(3)
    switch (omp_get_thread_num()) {
    case 0:
        MUST(crt_wait(&first));
        __atomic_add_fetch(&over, 1, __ATOMIC_RELAXED);
        break;
    case 1:
        MUST(crt_wait(&second));
        __atomic_add_fetch(&over, 1, __ATOMIC_RELAXED);
        break;
    default:
        MUST(crt_signal(&first));
        MUST(crt_signal(&second));
    }
}

int main(void) {
    int provided;
    /* The alarm ends the program if a wait hangs. */
    alarm(60);
    int code = crt_omp_yield_in_waits();
    MUST(host_init_thread(HOST_TASK_MULTIPLE, &provided));
    int kept = provided == HOST_TASK_MULTIPLE;
    CHECK(kept == (omp_get_external() == OMP_EXTERNAL_TASK), "level %d in %s mode", provided, mode_name());
    for (int round = 0; round < ROUNDS; round++) {
        if (kept) {
            as_tasks();
        } else {
            as_threads();
        }
    }
    CHECK(over == 2 * ROUNDS, "%d of %d waits ended", over, 2 * ROUNDS);
    CHECK(kept == (code == HOST_SUCCESS), "level %d after crt_omp_yield_in_waits gave %d", provided, code);
    CHECK(kept || provided == HOST_THREAD_MULTIPLE, "level %d", provided);
    return done("waiters");
}
