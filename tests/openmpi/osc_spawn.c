/* Windows of two jobs: osc_spawn [without]. The first job spawns another, and all make windows over the
 * merged communicator. With `without`, the second job lacks the component osc/ofi_rs, so other components
 * serve the windows. */
#include "check.h"

static void try_window(MPI_Win win, int64_t *base, MPI_Comm comm, int is_served)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length, rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Win_get_name(win, name, &length);
    CHECK(is_served == (0 == strcmp(name, "ofi_rs window")), "a window of '%s'", name);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    int64_t word = rank + 1, found = -1;
    MPI_Win_fence(0, win);
    MPI_Put(&word, 1, MPI_INT64_T, next, 0, 1, MPI_INT64_T, win);
    MPI_Accumulate(&word, 1, MPI_INT64_T, 0, 1, 1, MPI_INT64_T, MPI_SUM, win);
    MPI_Win_fence(0, win);
    CHECK(base[0] == last + 1, "%ld", (long) base[0]);
    CHECK(0 != rank || base[1] == size * (size + 1) / 2, "%ld", (long) base[1]);
    MPI_Win_lock_all(0, win);
    MPI_Get(&found, 1, MPI_INT64_T, last, 0, 1, MPI_INT64_T, win);
    MPI_Win_unlock_all(win);
    CHECK(found == (last + size - 1) % size + 1, "%ld", (long) found);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    int is_served = argc < 2;
    MPI_Comm between, all;
    MPI_Comm_get_parent(&between);
    int is_parent = MPI_COMM_NULL == between;
    int64_t own[2] = {0}, *base;
    MPI_Win win;
    /* The parents first make a window of their own job. */
    if (is_parent) {
        MPI_Win_create(own, sizeof own, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        try_window(win, own, MPI_COMM_WORLD, 1);
        char *without[] = {"OMPI_MCA_osc=^ofi_rs", argv[0], "without", NULL};
        MPI_Comm_spawn(is_served ? argv[0] : "env", is_served ? MPI_ARGV_NULL : without, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between, MPI_ERRCODES_IGNORE);
    }
    MPI_Intercomm_merge(between, !is_parent, &all);
    memset(own, 0, sizeof own);
    MPI_Win_create(own, sizeof own, 8, MPI_INFO_NULL, all, &win);
    try_window(win, own, all, is_served);
    MPI_Win_allocate(sizeof own, 8, MPI_INFO_NULL, all, &base, &win);
    memset(base, 0, sizeof own);
    try_window(win, base, all, is_served);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&between);
    if (is_parent) finish("osc_spawn");
    else MPI_Finalize();
}
