/* Windows of a single process, of the ranks of a node, and of all ranks, one after the other and at the same
 * time: osc/ofi_rs opens a provider only for the last, and only if there are several nodes. */
#include "check.h"

typedef struct {
    MPI_Win win;
    int64_t *base;
    int rank, size;
} Window;

static Window make(MPI_Comm comm)
{
    Window made;
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Comm_rank(comm, &made.rank);
    MPI_Comm_size(comm, &made.size);
    MPI_Win_allocate(3 * sizeof(int64_t), 8, MPI_INFO_NULL, comm, &made.base, &made.win);
    memset(made.base, 0, 3 * sizeof(int64_t));
    MPI_Win_get_name(made.win, name, &length);
    CHECK(0 == strcmp(name, "ofi_rs window"), "a window of '%s'", name);
    MPI_Barrier(comm);
    MPI_Win_lock_all(0, made.win);
    return made;
}

/* Puts to the next rank, and adds to the first rank. */
static void use(const Window *w, int64_t turn, int64_t *sum)
{
    int64_t word = 1000 * turn + w->rank, found = -1, one = 1;
    int next = (w->rank + 1) % w->size;
    MPI_Put(&word, 1, MPI_INT64_T, next, 0, 1, MPI_INT64_T, w->win);
    MPI_Win_flush(next, w->win);
    MPI_Get(&found, 1, MPI_INT64_T, next, 0, 1, MPI_INT64_T, w->win);
    MPI_Fetch_and_op(&one, sum, MPI_INT64_T, 0, 1, MPI_SUM, w->win);
    MPI_Win_flush_all(w->win);
    CHECK(found == word, "%ld", (long) found);
}

static void end(Window *w, MPI_Comm comm, int64_t uses)
{
    int64_t sum = -1;
    MPI_Barrier(comm);
    MPI_Get(&sum, 1, MPI_INT64_T, 0, 1, 1, MPI_INT64_T, w->win);
    MPI_Win_unlock_all(w->win);
    CHECK(sum == uses * w->size, "%ld", (long) sum);
    MPI_Win_free(&w->win);
}

int main(int argc, char **argv)
{
    enum { TURNS = 200 };
    start(&argc, &argv, MPI_THREAD_SINGLE);
    MPI_Comm comms[3] = {MPI_COMM_SELF, MPI_COMM_NULL, MPI_COMM_WORLD};
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comms[1]);
    Window windows[4];
    int64_t sum;
    for (int made = 0; made < 3; made++) {
        windows[made] = make(comms[made]);
        for (int turn = 0; turn < TURNS; turn++)
            for (int i = 0; i <= made; i++) use(&windows[i], turn, &sum);
    }
    /* Another window of the node, made while the provider is open. */
    windows[3] = make(comms[1]);
    for (int turn = 0; turn < TURNS; turn++) use(&windows[3], turn, &sum);
    end(&windows[3], comms[1], TURNS);
    for (int i = 0; i < 3; i++) end(&windows[i], comms[i], (3 - i) * TURNS);
    MPI_Comm_free(&comms[1]);
    finish("osc_scopes");
}
