/* Calls the component's table in ways that Open MPI permits but does not use itself: processes added twice,
 * one by one, and without room for the bits, left out, released and added again; the dump; and locks as
 * osc/rdma takes them. */
#include "opal_config.h"

#include "opal/class/opal_bitmap.h"
#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/btl.h"
#include "opal/util/proc.h"

#include "check.h"

enum { WORDS = 512, HANDLE = 256 };
typedef struct mca_btl_base_endpoint_t endpoint_t;

static mca_btl_base_module_t *find(void)
{
    mca_btl_base_selected_module_t *selected;
    OPAL_LIST_FOREACH(selected, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t) {
        if (0 == strcmp(selected->btl_component->btl_version.mca_component_name, "ofi_rs")) {
            return selected->btl_module;
        }
    }
    CHECK(0, "no module of ofi_rs");
    return NULL;
}

static void done(mca_btl_base_module_t *btl, endpoint_t *peer, void *local, mca_btl_base_registration_handle_t *handle,
                 void *context, void *data, int status)
{
    (void) btl, (void) peer, (void) local, (void) handle, (void) data;
    CHECK(OPAL_SUCCESS == status, "an atomic ended with %d", status);
    *(volatile bool *) context = true;
}

/* Takes and releases the lock at `word` of the peer, and waits for the completion of
 * each. */
static void lock(mca_btl_base_module_t *btl, endpoint_t *peer, uint64_t word, mca_btl_base_registration_handle_t *handle)
{
    const int64_t exclusive = INT64_MIN;
    volatile bool complete = false;
    int64_t old = 1;
    int rc;
    while (0 > (rc = btl->btl_atomic_cswap(btl, peer, &old, word, NULL, handle, 0, exclusive, 0, MCA_BTL_NO_ORDER, done,
                                           (void *) &complete, NULL))) {
        CHECK(OPAL_ERR_OUT_OF_RESOURCE == rc || OPAL_ERR_TEMP_OUT_OF_RESOURCE == rc, "compare-and-swap returned %d", rc);
        btl->btl_component->btl_progress();
    }
    while (!complete && 0 == rc) {
        btl->btl_component->btl_progress();
    }
    CHECK(0 == old, "the lock was %lx", (long) old);
    complete = false;
    while (0 > (rc = btl->btl_atomic_op(btl, peer, word, handle, MCA_BTL_ATOMIC_ADD, exclusive, 0, MCA_BTL_NO_ORDER, done,
                                        (void *) &complete, NULL))) {
        CHECK(OPAL_ERR_OUT_OF_RESOURCE == rc || OPAL_ERR_TEMP_OUT_OF_RESOURCE == rc, "the release returned %d", rc);
        btl->btl_component->btl_progress();
    }
    while (!complete && 0 == rc) {
        btl->btl_component->btl_progress();
    }
}

/* Writes a word to the peer, whose handle and address it has learned, and waits for the peer's word; then
 * takes a lock of the peer. */
static void exchange(mca_btl_base_module_t *btl, endpoint_t *peer, int64_t mark)
{
    static volatile int64_t window[WORDS];
    struct { uint64_t at; char handle[HANDLE]; } mine = {0}, theirs;
    int other = 1 - world_rank;
    int64_t out = mark + world_rank;
    mca_btl_base_registration_handle_t *handle =
        btl->btl_register_mem(btl, MCA_BTL_ENDPOINT_ANY, (void *) window, sizeof(window), MCA_BTL_REG_FLAG_ACCESS_ANY);
    CHECK(handle && btl->btl_registration_handle_size <= HANDLE, "registering memory");
    mine.at = (uint64_t) (uintptr_t) window;
    memcpy(mine.handle, handle, btl->btl_registration_handle_size);
    MPI_Sendrecv(&mine, sizeof(mine), MPI_BYTE, other, 1, &theirs, sizeof(theirs), MPI_BYTE, other, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    int rc;
    while (OPAL_ERR_OUT_OF_RESOURCE == (rc = btl->btl_put(btl, peer, &out, theirs.at + 64, NULL,
                   (mca_btl_base_registration_handle_t *) theirs.handle, 8, 0, MCA_BTL_NO_ORDER, NULL, NULL, NULL)) ||
           OPAL_ERR_TEMP_OUT_OF_RESOURCE == rc) {
        btl->btl_component->btl_progress();
    }
    CHECK(OPAL_SUCCESS == rc, "put returned %d", rc);
    CHECK(OPAL_SUCCESS == btl->btl_flush(btl, peer), "flush");
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(window[8] == mark + other, "the peer's word is %ld", (long) window[8]);
    lock(btl, peer, theirs.at + 128, (mca_btl_base_registration_handle_t *) theirs.handle);
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
    mca_btl_base_module_t *btl = find();

    opal_process_name_t name = opal_proc_local_get()->proc_name;
    name.vpid = 1 - world_rank;
    opal_proc_t *self = opal_proc_local_get(), *other = opal_proc_for_name(name);
    CHECK(other && other != self, "no process %d", 1 - world_rank);

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
    exchange(btl, ends[2], 100);

    /* Known processes again, without room for the bits; one process alone; no process. */
    CHECK(OPAL_SUCCESS == btl->btl_add_procs(btl, 3, procs, again, NULL), "add_procs again");
    CHECK(again[0] == ends[0] && !again[1] && again[2] == ends[2], "a known process got another endpoint");
    CHECK(OPAL_SUCCESS == btl->btl_add_procs(btl, 1, &other, &one, NULL) && one == ends[2], "add_procs of one");
    CHECK(OPAL_SUCCESS == btl->btl_add_procs(btl, 0, NULL, NULL, NULL), "add_procs of nobody");
    exchange(btl, one, 200);
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
    exchange(btl, one, 300);
    OBJ_DESTRUCT(&reachable);
    finish("table");
    return 0;
}
