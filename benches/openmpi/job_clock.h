/* Clock, binding and lines of results. Each line is `name bytes threads value unit`, as compare.py reads it. */
#ifndef JOB_CLOCK_H
#define JOB_CLOCK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_setaffinity */
#endif
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

/* Keeps the calling thread on one processor, whatever launcher started it, so that every side is bound alike. */
static inline void pin(int number)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t) (number % (cores > 0 ? cores : 1)), &set);
    (void) sched_setaffinity(0, sizeof(set), &set);
}

static inline void report(const char *name, size_t size, int threads, double value, const char *unit)
{
    printf("%s %zu %d %.6g %s\n", name, size, threads, value, unit);
    fflush(stdout);
}

#endif
