/* Each lost peer is reported to Open MPI once, with its process. Any other error is reported once without a
 * process, even for an operation with a callback. Rank 0 replaces pml/ob1's error callback, which would end
 * the job at the first report. mpirun must ignore the lost process (--enable-recovery). */
#include "btl.h"
#include <signal.h>
#include <unistd.h>

enum { WORDS = 512, RANKS = 4, LIVING = RANKS - 1, LIMIT = 30 };

/* Reports by the rank of the process, and reports without a process. */
static volatile int reported[RANKS], without_process;

static void report(mca_btl_base_module_t *from, int32_t flags, opal_proc_t *proc, char *info)
{
    CHECK(from == btl && flags & MCA_BTL_ERROR_FLAGS_FATAL && info, "the callback's arguments");
    printf("lost_peers: reported: %s\n", info);
    if (proc) {
        CHECK(proc->proc_name.vpid < RANKS, "a report of process %u", proc->proc_name.vpid);
        reported[proc->proc_name.vpid]++;
    } else {
        without_process++;
    }
}

static int put(endpoint_t *peer, window_t *window, uint64_t offset)
{
    static int64_t word = 7;
    return btl->btl_put(btl, peer, &word, window->at + offset, NULL, (handle_t *) window->handle, 8, 0, MCA_BTL_NO_ORDER, NULL,
                        NULL, NULL);
}

/* Puts to the peer until it is reported as lost, and some more. */
static void lose(int rank, endpoint_t *peer, window_t *window)
{
    time_t end = time(NULL) + LIMIT;
    while (!reported[rank] && time(NULL) < end) {
        put(peer, window, 64);
        btl->btl_flush(btl, peer);
    }
    CHECK(1 == reported[rank], "%d reports of rank %d in %d s", reported[rank], rank, LIMIT);
    for (int i = 0; i < 100; ++i) {
        CHECK(0 != put(peer, window, 64), "a put to a lost peer");
        btl->btl_flush(btl, i % 2 ? peer : NULL);
        btl->btl_component->btl_progress();
    }
    CHECK(1 == reported[rank] && !without_process, "%d reports of rank %d, %d without a process", reported[rank], rank,
          without_process);
}

static void failed(mca_btl_base_module_t *from, endpoint_t *peer, void *local, handle_t *handle, void *context, void *data,
                   int status)
{
    (void) from, (void) peer, (void) local, (void) handle, (void) data;
    CHECK(0 != status && 1 == without_process, "the callback of an atomic on memory that is not registered: %d", status);
    *(volatile bool *) context = true;
}

/* The target refuses an atomic. A living peer stays connected after the refusal; later refusals are not
 * reported. */
static void be_refused(endpoint_t *peer, window_t *gone)
{
    static int64_t old;
    volatile bool complete = false;
    int rc;
    while (is_again(rc = btl->btl_atomic_fop(btl, peer, &old, gone->at, NULL, (handle_t *) gone->handle, MCA_BTL_ATOMIC_ADD, 1,
                                             0, MCA_BTL_NO_ORDER, failed, (void *) &complete, NULL))) {
    }
    CHECK(0 <= rc, "an atomic returned %d", rc);
    while (!complete) {
        btl->btl_component->btl_progress();
    }
    for (int i = 0; i < 3; ++i) {
        CHECK(0 != put(peer, gone, sizeof(int64_t) * WORDS), "a put outside of the window");
    }
    CHECK(1 == without_process && 0 == reported[LIVING], "%d reports without a process, %d of a living one", without_process,
          reported[LIVING]);
}

/* Registers memory, and publishes the registration to all ranks. */
static handle_t *expose_to_all(int64_t *memory, window_t *windows)
{
    window_t mine = {0};
    handle_t *handle = expose(memory, sizeof(int64_t) * WORDS, &mine);
    MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, windows, sizeof(mine), MPI_BYTE, MPI_COMM_WORLD);
    return handle;
}

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(world_size == RANKS, "run with %d ranks", RANKS);
    find();
    static int64_t memory[WORDS], other[WORDS];
    window_t windows[RANKS], gone[RANKS];
    expose_to_all(memory, windows);
    btl->btl_deregister_mem(btl, expose_to_all(other, gone));
    endpoint_t *ends[RANKS] = {NULL};
    for (int i = 0; i < RANKS; ++i) {
        opal_proc_t *proc = process(i);
        CHECK(OPAL_SUCCESS == btl->btl_add_procs(btl, 1, &proc, &ends[i], NULL) && ends[i], "no endpoint of %d", i);
    }
    int go = 0;
    if (0 != world_rank) {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Recv(&go, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        raise(SIGKILL);
    }
    CHECK(OPAL_SUCCESS == btl->btl_register_error(btl, report), "register_error");
    for (int i = 0; i < RANKS; ++i) {
        CHECK(0 == put(ends[i], &windows[i], 64) && OPAL_SUCCESS == btl->btl_flush(btl, ends[i]), "a put to %d", i);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 1; i < LIVING; ++i) {
        MPI_Send(&go, 1, MPI_INT, i, 1, MPI_COMM_WORLD);
        lose(i, ends[i], &windows[i]);
    }
    be_refused(ends[LIVING], &gone[LIVING]);
    MPI_Send(&go, 1, MPI_INT, LIVING, 1, MPI_COMM_WORLD);
    printf("lost_peers: ok, %d ranks\n", world_size);
    fflush(stdout);
    /* MPI_Finalize would wait for the other ranks. */
    _exit(0);
}
