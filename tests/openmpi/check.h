/* Shared by the programs of this folder: a check that prints its location, and an end that fails the whole
 * job. */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int world_rank, world_size;

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

#endif
