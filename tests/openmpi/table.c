/* Calls the component's table in ways that Open MPI permits but does not use itself: processes added twice,
 * one by one, and without room for the bits, left out, released and added again; the dump; and locks as
 * osc/rdma takes them. */
#include "btl.h"

#include "opal/class/opal_bitmap.h"

enum { WORDS = 512 };

static void done(mca_btl_base_module_t *from, endpoint_t *peer, void *local, handle_t *handle, void *context, void *data,
                 int status)
{
    (void) from, (void) peer, (void) local, (void) handle, (void) data;
    CHECK(OPAL_SUCCESS == status, "an atomic ended with %d", status);
    *(volatile bool *) context = true;
}

/* Tries an atomic until it is taken, and waits until it is complete. */
#define COMPLETE(what, call)                              \
    do {                                                  \
        volatile bool complete = false;                   \
        int rc;                                           \
        while (is_again(rc = call)) {                     \
        }                                                 \
        CHECK(0 <= rc, "%s returned %d", what, rc);       \
        while (!complete && 0 == rc) {                    \
            btl->btl_component->btl_progress();           \
        }                                                 \
    } while (0)

/* Takes and releases the lock at `word` of the peer. */
static void lock(endpoint_t *peer, uint64_t word, handle_t *handle)
{
    const int64_t exclusive = INT64_MIN;
    int64_t old = 1;
    COMPLETE("compare-and-swap", btl->btl_atomic_cswap(btl, peer, &old, word, NULL, handle, 0, exclusive, 0, MCA_BTL_NO_ORDER,
                                                       done, (void *) &complete, NULL));
    CHECK(0 == old, "the lock was %lx", (long) old);
    COMPLETE("the release", btl->btl_atomic_op(btl, peer, word, handle, MCA_BTL_ATOMIC_ADD, exclusive, 0, MCA_BTL_NO_ORDER,
                                               done, (void *) &complete, NULL));
}

/* Writes a word to the peer, whose handle and address it has learned, and waits for the peer's word; then
 * takes a lock of the peer. */
static void exchange(endpoint_t *peer, int64_t mark)
{
    static volatile int64_t window[WORDS];
    window_t mine = {0}, theirs;
    int other = 1 - world_rank;
    int64_t out = mark + world_rank;
    handle_t *handle = expose((void *) window, sizeof(window), &mine);
    MPI_Sendrecv(&mine, sizeof(mine), MPI_BYTE, other, 1, &theirs, sizeof(theirs), MPI_BYTE, other, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    int rc;
    while (is_again(rc = btl->btl_put(btl, peer, &out, theirs.at + 64, NULL, (handle_t *) theirs.handle, 8, 0,
                                      MCA_BTL_NO_ORDER, NULL, NULL, NULL))) {
    }
    CHECK(OPAL_SUCCESS == rc, "put returned %d", rc);
    CHECK(OPAL_SUCCESS == btl->btl_flush(btl, peer), "flush");
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(window[8] == mark + other, "the peer's word is %ld", (long) window[8]);
    lock(peer, theirs.at + 128, (handle_t *) theirs.handle);
    MPI_Barrier(MPI_COMM_WORLD);
    /* An earlier release may still be outstanding. */
    while (0 != window[16]) {
        btl->btl_component->btl_progress();
    }
    CHECK(OPAL_SUCCESS == btl->btl_deregister_mem(btl, handle), "deregistering memory");
}

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(world_size == 2, "run with 2 ranks");
    find();
    opal_proc_t *self = opal_proc_local_get(), *other = process(1 - world_rank);
    CHECK(other != self, "no other process");

    /* Several processes in one call, with room for the bits, and an entry that is no
     * process. */
    opal_proc_t *procs[3] = {self, NULL, other};
    endpoint_t *ends[3] = {NULL, (void *) 8, NULL}, *again[3] = {NULL, (void *) 8, NULL}, *one = NULL;
    opal_bitmap_t reachable;
    OBJ_CONSTRUCT(&reachable, opal_bitmap_t);
    CHECK(OPAL_SUCCESS == opal_bitmap_init(&reachable, 3), "opal_bitmap_init");
    CHECK(OPAL_SUCCESS == btl->btl_add_procs(btl, 3, procs, ends, &reachable), "add_procs");
    CHECK(ends[0] && !ends[1] && ends[2] && ends[0] != ends[2], "endpoints %p %p %p", (void *) ends[0], (void *) ends[1],
          (void *) ends[2]);
    CHECK(opal_bitmap_is_set_bit(&reachable, 0) && !opal_bitmap_is_set_bit(&reachable, 1) &&
              opal_bitmap_is_set_bit(&reachable, 2), "the bits of who can be reached");
    exchange(ends[2], 100);

    /* Known processes again, without room for the bits; one process alone; no process. */
    CHECK(OPAL_SUCCESS == btl->btl_add_procs(btl, 3, procs, again, NULL), "add_procs again");
    CHECK(again[0] == ends[0] && !again[1] && again[2] == ends[2], "a known process got another endpoint");
    CHECK(OPAL_SUCCESS == btl->btl_add_procs(btl, 1, &other, &one, NULL) && one == ends[2], "add_procs of one");
    CHECK(OPAL_SUCCESS == btl->btl_add_procs(btl, 0, NULL, NULL, NULL), "add_procs of nobody");
    exchange(one, 200);
    btl->btl_dump(btl, NULL, 1);
    btl->btl_dump(btl, one, 1);

    /* One call releases the process, however often it was added; a second release, and a release of no
     * process, do no harm. */
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(OPAL_SUCCESS == btl->btl_del_procs(btl, 1, &other, &one), "del_procs");
    btl->btl_dump(btl, NULL, 1);
    CHECK(OPAL_SUCCESS == btl->btl_del_procs(btl, 1, &other, &one), "del_procs again");
    CHECK(OPAL_SUCCESS == btl->btl_del_procs(btl, 2, procs + 1, ends + 1), "del_procs of no process");
    CHECK(OPAL_SUCCESS == btl->btl_del_procs(btl, 0, NULL, NULL), "del_procs of nobody");

    /* The process is added again. */
    MPI_Barrier(MPI_COMM_WORLD);
    one = NULL;
    CHECK(OPAL_SUCCESS == btl->btl_add_procs(btl, 1, &other, &one, NULL) && one, "add_procs after del_procs");
    exchange(one, 300);
    OBJ_DESTRUCT(&reachable);
    finish("table");
    return 0;
}
