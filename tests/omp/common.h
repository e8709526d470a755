/* Shared by the OpenMP programs: checks, and the end. */
#ifndef COMMON_H
#define COMMON_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "crt_omp.h"

static int checks_failed;

#define MUST(call)                                                                                  \
    do {                                                                                            \
        int must_code = (call);                                                                     \
        if (must_code != HOST_SUCCESS) {                                                            \
            fprintf(stderr, "rank %d: %s returned %d: %s\n", host_rank(), #call, must_code,         \
                    host_error_text());                                                             \
            exit(1);                                                                                \
        }                                                                                           \
    } while (0)

#define CHECK(holds, ...)                                                                           \
    do {                                                                                            \
        if (!(holds)) {                                                                             \
            fprintf(stderr, "rank %d: %s:%d: ", host_rank(), __FILE__, __LINE__);                   \
            fprintf(stderr, __VA_ARGS__);                                                           \
            fprintf(stderr, "\n");                                                                  \
            __atomic_fetch_add(&checks_failed, 1, __ATOMIC_RELAXED);                                \
        }                                                                                           \
    } while (0)

static const char *mode_name(void) {
    static const char *const names[] = {"master", "thread", "task"};
    int mode = omp_get_external();
    return mode >= 0 && mode < 3 ? names[mode] : "?";
}

/* The form of a program: the argument "as-master", "as-thread" or "as-task" selects it; the default is
 * the form of the mode. A form that was written for a mode also works in the later modes. */
static int form_of(int argc, char **argv, int mode) {
    static const char *const forms[] = {"as-master", "as-thread", "as-task"};
    for (int at = 1; at < argc; at++) {
        for (int form = 0; form < 3; form++) {
            if (strcmp(argv[at], forms[form]) == 0) {
                return form;
            }
        }
    }
    return mode;
}

/* Whether the arguments contain a word. */
static int is_asked(int argc, char **argv, const char *word) {
    for (int at = 1; at < argc; at++) {
        if (strcmp(argv[at], word) == 0) {
            return 1;
        }
    }
    return 0;
}

/* Leaves the job; rank 0 prints the result. */
static int done(const char *program) {
    int rank = host_rank();
    int failed = __atomic_load_n(&checks_failed, __ATOMIC_RELAXED);
    CHECK(crt_omp_failures() == 0, "%d detached operations failed", crt_omp_failures());
    MUST(host_barrier());
    MUST(host_finalize());
    if (rank == 0 && failed == 0) {
        printf("%s: %s mode, right\n", program, mode_name());
    }
    return failed == 0 ? 0 : 1;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
