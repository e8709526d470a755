/* Checks which component serves windows: osc_name PREFIX expects window names that begin with PREFIX. The windows work with
 * every component. */
#include "check.h"

static void try_window(MPI_Win win, int64_t *base, const char *prefix)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Win_get_name(win, name, &length);
    CHECK(0 == strncmp(name, prefix, strlen(prefix)), "a window of '%s', not of '%s'", name, prefix);
    int64_t word = world_rank + 1;
    MPI_Win_fence(0, win);
    MPI_Put(&word, 1, MPI_INT64_T, next, 0, 1, MPI_INT64_T, win);
    MPI_Accumulate(&word, 1, MPI_INT64_T, 0, 1, 1, MPI_INT64_T, MPI_SUM, win);
    MPI_Win_fence(0, win);
    CHECK(base[0] == last + 1, "%ld", (long) base[0]);
    CHECK(0 != world_rank || base[1] == world_size * (world_size + 1) / 2, "%ld", (long) base[1]);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(2 == argc, "osc_name PREFIX");
    int64_t memory[2] = {0}, *base;
    MPI_Win win;
    for (int turn = 0; turn < 2; ++turn) {
        MPI_Win_create(memory, sizeof memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        memset(memory, 0, sizeof memory);
        try_window(win, memory, argv[1]);
        MPI_Win_allocate(2 * sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
        memset(base, 0, 2 * sizeof *base);
        try_window(win, base, argv[1]);
    }
    finish("osc_name");
}
