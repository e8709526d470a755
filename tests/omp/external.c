/*
 * omp_set_external before init overrides the environment; after init, or with an invalid value, it has no
 * effect.
 *
 *   external MODE LEVEL USED          sets the mode of this number, and expects this thread level for it, and
 *                                     this mode to be used
 *   external MODE LEVEL USED hooks    the same under a tasking runtime
 */
#include "common.h"

/* The hook of a runtime in which no task runs yet. */
static void *running(void) {
    return NULL;
}

static void yield(void) {
}

int main(int argc, char **argv) {
    int wanted = argc > 1 ? atoi(argv[1]) : 0, level = argc > 2 ? atoi(argv[2]) : 0, provided;
    int used = argc > 3 ? atoi(argv[3]) : 0;
    int before = omp_get_external();
    CHECK(before != wanted, "the environment names the mode that is to be set");
    omp_set_external(3);
    omp_set_external(-1);
    CHECK(omp_get_external() == before, "a value that names no mode changed it to %d", omp_get_external());
    omp_set_external((wanted + 1) % 3);
    omp_set_external(wanted);
    CHECK(omp_get_external() == wanted, "%d instead of %d", omp_get_external(), wanted);
    if (is_asked(argc, argv, "hooks")) {
        crt_hooks_t hooks = {CRT_HOOKS_MAGIC, sizeof hooks, CRT_CAN_YIELD, 0, running, NULL, NULL, yield};
        MUST(crt_set_hooks(&hooks));
    }
    MUST(host_init_thread(HOST_THREAD_SINGLE, &provided));
    CHECK(provided == level, "level %d for mode %d", provided, wanted);
    omp_set_external(before);
    CHECK(omp_get_external() == used, "mode %d after host_init", omp_get_external());
    return done("external");
}
