/*
 * A task and a thread that wait for long, which host_wait_report reports: the program prints which thread of its team
 * each is on. With the argument `own-tool` the program has a tool of its own for OpenMP (OMPT), which goes first.
 */
#include <unistd.h>

#include "common.h"

static crt_cond_t for_task = CRT_COND_INIT, for_thread = CRT_COND_INIT;

#ifdef OWN_TOOL
struct tool {
    int (*initialize)(void *(*lookup)(const char *), int device, void *data);
    void (*finalize)(void *data);
    unsigned long data;
};

static int initialize(void *(*lookup)(const char *), int device, void *data) {
    (void)lookup, (void)device, (void)data;
    printf("the program's tool has started\n");
    fflush(stdout);
    return 1;
}

static void finalize(void *data) { (void)data; }

__attribute__((visibility("default"))) struct tool *ompt_start_tool(unsigned version, const char *runtime) {
    static struct tool own = {initialize, finalize, 0};
    (void)version, (void)runtime;
    return &own;
}
#endif

/* Long for a wait that is reported after 50 ms; the watcher may come late. */
static void pause_long(void) { usleep(600 * 1000); }

static void as_task(void) {
#pragma omp parallel num_threads(2)
#pragma omp single
    {
#pragma omp task untied
        {
            printf("the task waits on thread %d of %d\n", omp_get_thread_num(), omp_get_num_threads());
            fflush(stdout);
            MUST(crt_wait(&for_task));
        }
#pragma omp task untied
        {
            pause_long();
            MUST(crt_signal(&for_task));
        }
    }
}

static void as_thread(void) {
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1) {
        MUST(crt_wait(&for_thread));
    } else {
        pause_long();
        MUST(crt_signal(&for_thread));
    }
}

int main(void) {
    int provided;
    /* Against hanging: ends the program where a wait does not. */
    alarm(60);
    /* The runtime starts before the job is joined. */
    CHECK(omp_get_max_threads() > 1, "%d threads", omp_get_max_threads());
    MUST(host_init_thread(HOST_THREAD_MULTIPLE, &provided));
    as_task();
    as_thread();
    return done("reported");
}
