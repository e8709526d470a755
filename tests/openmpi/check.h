/* Shared by the programs of this folder: a check that prints its location, and an end that fails the whole
 * job. */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The last two are the neighbours in the ring of ranks. */
static int world_rank, world_size, next, last;

#define CHECK(condition, ...)                                                            \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            fprintf(stderr, "%s:%d: rank %d: %s: ", __FILE__, __LINE__, world_rank, #condition); \
            fprintf(stderr, __VA_ARGS__);                                                \
            fprintf(stderr, "\n");                                                       \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

static inline void start(int *argc, char ***argv, int level)
{
    int given;
    MPI_Init_thread(argc, argv, level, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    next = (world_rank + 1) % world_size;
    last = (world_rank + world_size - 1) % world_size;
    CHECK(given >= level, "thread level %d asked, %d given", level, given);
}

/* Every program ends with this line; the scripts search for it. */
static inline void finish(const char *name)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == world_rank) {
        printf("%s: ok, %d ranks\n", name, world_size);
        fflush(stdout);
    }
    MPI_Finalize();
}

/* Window memory whose changes the target's processor and the library see immediately (the unified
 * memory model). */
static inline MPI_Win window(void *base, size_t size)
{
    MPI_Win win;
    CHECK(MPI_SUCCESS == MPI_Win_create(base, (MPI_Aint) size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), "MPI_Win_create");
    return win;
}

/* Checks that the component under test serves the window. */
static inline void served(MPI_Win of)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Win_get_name(of, name, &length);
    CHECK(0 == strcmp(name, "ofi_rs window"), "a window of '%s'", name);
}

/* The error class of a call's result. */
static inline int class_of(int code)
{
    int class = code;
    if (MPI_SUCCESS != code) MPI_Error_class(code, &class);
    return class;
}

static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

#endif
