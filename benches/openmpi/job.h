/* Shared by the MPI programs of this folder that are compared: windows, and the end of a job. */
#ifndef JOB_H
#define JOB_H

#include "job_clock.h"

#include <mpi.h>
#include <string.h>

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

/* Rank 0 reports the time to solution, but only of a right result: a wrong one is no measurement, and the job fails.
 * Collective; gives the exit code. */
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
