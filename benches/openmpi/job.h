/* Functions that the compared MPI programs of this folder share: clock, binding, lines of results, windows, and the end of a
 * job. */
#ifndef JOB_H
#define JOB_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_setaffinity */
#endif
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

/* Binds the calling thread to one processor, under any launcher, so that all sides are bound in the same way. */
static inline void pin(int number)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t) (number % (cores > 0 ? cores : 1)), &set);
    (void) sched_setaffinity(0, sizeof(set), &set);
}

/* A line of results: `name bytes threads value unit`, as running.py reads it. */
static inline void report(const char *name, size_t size, int threads, double value, const char *unit)
{
    printf("%s %zu %d %.6g %s\n", name, size, threads, value, unit);
    fflush(stdout);
}

static inline void stop(const char *why)
{
    fprintf(stderr, "%s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 2);
    exit(2);
}

/* The longest of all ranks' times, at rank 0. Collective. */
static inline double longest(double seconds)
{
    double most = 0;
    MPI_Reduce(&seconds, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    return most;
}

/* A window of zeros over memory of the program (`create`) or of MPI (`allocate`). Collective. */
static inline void *make_window(const char *kind, size_t bytes, int unit, MPI_Comm comm, MPI_Win *win)
{
    void *base = NULL;
    if (!strcmp(kind, "create")) {
        bytes = (bytes + 4095) & ~(size_t) 4095;
        base = aligned_alloc(4096, bytes);
        if (!base) {
            stop("no memory for a window");
        }
        MPI_Win_create(base, (MPI_Aint) bytes, unit, MPI_INFO_NULL, comm, win);
    } else if (!strcmp(kind, "allocate")) {
        MPI_Win_allocate((MPI_Aint) bytes, unit, MPI_INFO_NULL, comm, &base, win);
    } else {
        stop("a window is of kind create or allocate");
    }
    memset(base, 0, bytes);
    MPI_Barrier(comm);
    return base;
}

/* Collective. */
static inline void drop_window(const char *kind, void *base, MPI_Win *win)
{
    MPI_Win_free(win);
    if (!strcmp(kind, "create")) {
        free(base);
    }
}

/* Rank 0 reports the time to solution, but only for a right result. With a wrong result the job fails. Collective;
 * returns the exit code. */
static inline int conclude(const char *name, size_t size, double seconds, long wrong)
{
    int rank;
    long all = 0;
    double most = longest(seconds);
    MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (0 == rank && 0 == all) {
        report(name, size, 1, most, "s");
    } else if (0 == rank) {
        fprintf(stderr, "%s: the result is wrong in %ld places\n", name, all);
    }
    return all != 0;
}

#endif
