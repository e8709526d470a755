/* Calls the component's table as Open MPI does if the component has no messages or no room, or has not added
 * the sender. Usage: refusals PART. Parts, all with two ranks: mode btl_ofi_mode 0: a descriptor is asked
 * for, as osc/rdma of 5.0 does for windows by messages room btl_ofi_mode 2: more long transfers to one peer
 * than the transport takes, as pml/ob1 may have them release btl_ofi_mode 2: a peer is released while long
 * transfers to it wait for room sender btl_ofi_mode 2, 5.0 and later: a request of active-message RDMA from a
 * process that was not added */
#include "btl.h"

enum { LONG = 128 * 1024 + 512, MANY = 1100, FEW = 7 };

static opal_proc_t *other;
static endpoint_t *peer;

static void add(void)
{
    peer = NULL;
    CHECK(OPAL_SUCCESS == btl->btl_add_procs(btl, 1, &other, &peer, NULL) && peer, "add_procs");
}

static volatile int reports;

static void report(mca_btl_base_module_t *from, int32_t flags, opal_proc_t *proc, char *info)
{
    CHECK(from == btl && flags & MCA_BTL_ERROR_FLAGS_FATAL && !proc && info, "the callback's arguments");
    printf("refusals: reported: %s\n", info);
    CHECK(strstr(info, "set btl_ofi_mode to 2"), "the report does not say what to do");
    reports++;
}

/* Open MPI would write to a descriptor without bytes. */
static void no_messages(void)
{
    CHECK(!(btl->btl_flags & MCA_BTL_FLAGS_SEND), "run with btl_ofi_mode 0");
    CHECK(OPAL_SUCCESS == btl->btl_register_error(btl, report), "register_error");
    CHECK(!btl->btl_alloc(btl, peer, MCA_BTL_NO_ORDER, 64, MCA_BTL_DES_SEND_ALWAYS_CALLBACK), "a descriptor");
    CHECK(1 == reports, "%d reports", reports);
}

static volatile int complete, unreached;

static void done(mca_btl_base_module_t *from, endpoint_t *to, void *local, handle_t *handle, void *context, void *data, int status)
{
    (void) to, (void) local, (void) handle, (void) data;
    CHECK(from == btl && context == (void *) &complete, "the callback's arguments");
    CHECK(OPAL_SUCCESS == status || OPAL_ERR_UNREACH == status, "a transfer ended with %d", status);
    complete++;
    unreached += OPAL_ERR_UNREACH == status;
}

/* Posts `many` transfers; none may be refused. */
static void crowd(int many, bool puts, char *local, window_t *theirs)
{
    complete = unreached = 0;
    for (int i = 0; i < many; ++i) {
        int rc = puts ? btl->btl_put(btl, peer, local, theirs->at, NULL, (handle_t *) theirs->handle, LONG, 0,
                                     MCA_BTL_NO_ORDER, done, (void *) &complete, NULL)
                      : btl->btl_get(btl, peer, local, theirs->at, NULL, (handle_t *) theirs->handle, LONG, 0,
                                     MCA_BTL_NO_ORDER, done, (void *) &complete, NULL);
        CHECK(OPAL_SUCCESS == rc, "%s %d returned %d", puts ? "put" : "get", i, rc);
    }
}

/* Posts more transfers than the transport accepts. */
static void no_room(void)
{
    static char window[LONG], local[LONG];
    window_t mine = {0}, theirs;
    CHECK(btl->btl_flags & MCA_BTL_FLAGS_SEND, "run with btl_ofi_mode 2");
    handle_t *handle = expose(window, LONG, &mine);
    memset(window, 1 + world_rank, LONG);
    MPI_Sendrecv(&mine, sizeof(mine), MPI_BYTE, 1 - world_rank, 1, &theirs, sizeof(theirs), MPI_BYTE, 1 - world_rank, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (0 == world_rank) {
        crowd(MANY, false, local, &theirs);
        while (MANY > complete) {
            btl->btl_component->btl_progress();
        }
        CHECK(2 == local[0] && 2 == local[LONG - 1] && !unreached, "the gets brought %d", local[0]);
        memset(local, 7, LONG);
        crowd(MANY, true, local, &theirs);
        CHECK(OPAL_SUCCESS == btl->btl_flush(btl, peer), "flush");
        CHECK(MANY == complete && !unreached, "%d puts of %d are complete behind a flush, %d failed", complete, MANY, unreached);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(0 == world_rank || (7 == window[0] && 7 == window[LONG - 1]), "the puts brought %d", window[0]);
    CHECK(OPAL_SUCCESS == btl->btl_deregister_mem(btl, handle), "deregistering memory");
}

/* Transfers that wait for room end with the release of their peer. */
static void release(void)
{
    static char window[LONG], local[LONG];
    window_t mine;
    CHECK(btl->btl_flags & MCA_BTL_FLAGS_SEND, "run with btl_ofi_mode 2");
    handle_t *handle = expose(window, LONG, &mine);
    crowd(FEW, false, local, &mine);
    CHECK(0 == complete, "run over a provider that never has room");
    CHECK(OPAL_SUCCESS == btl->btl_del_procs(btl, 1, &other, &peer), "del_procs");
    CHECK(FEW == complete && FEW == unreached, "%d of %d ended with the release, %d of them unmade", complete, FEW, unreached);
    add();
    CHECK(OPAL_SUCCESS == btl->btl_deregister_mem(btl, handle), "deregistering memory");
}

#if OPAL_MAJOR_VERSION >= 5
static volatile int requests;

static void request(mca_btl_base_module_t *from, const mca_btl_base_receive_descriptor_t *descriptor)
{
    CHECK(from == btl && descriptor->endpoint && MCA_BTL_BASE_TAG_RDMA == descriptor->tag, "a request of nobody");
    CHECK(8 == descriptor->des_segments->seg_len && 0 == memcmp(descriptor->des_segments->seg_addr.pval, "question", 8),
          "the request's bytes");
    requests++;
}

/* Sends a request with a descriptor that the component returns immediately. */
static void ask(void)
{
    mca_btl_base_descriptor_t *descriptor = btl->btl_alloc(btl, peer, MCA_BTL_NO_ORDER, 8, MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);
    CHECK(descriptor, "no descriptor");
    memcpy(descriptor->des_segments->seg_addr.pval, "question", 8);
    descriptor->des_cbfunc = NULL;
    CHECK(0 <= btl->btl_send(btl, peer, descriptor, MCA_BTL_BASE_TAG_RDMA), "send");
}

static void unknown_sender(void)
{
    CHECK(btl->btl_flags & MCA_BTL_FLAGS_SEND, "run with btl_ofi_mode 2");
    mca_btl_base_active_message_trigger[MCA_BTL_BASE_TAG_RDMA].cbfunc = request;
    if (1 == world_rank) {
        CHECK(OPAL_SUCCESS == btl->btl_del_procs(btl, 1, &other, &peer), "del_procs");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == world_rank) {
        ask();
        ask();
    } else {
        while (2 > requests) {
            btl->btl_component->btl_progress();
        }
        add();
        ask();
    }
    while (0 == world_rank && 1 > requests) {
        btl->btl_component->btl_progress();
    }
    MPI_Barrier(MPI_COMM_WORLD);
}
#endif

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(world_size == 2 && argc == 2, "run with 2 ranks and a part");
    find();
    other = process(1 - world_rank);
    add();
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == strcmp(argv[1], "mode")) {
        no_messages();
    } else if (0 == strcmp(argv[1], "room")) {
        no_room();
    } else if (0 == strcmp(argv[1], "release")) {
        release();
#if OPAL_MAJOR_VERSION >= 5
    } else if (0 == strcmp(argv[1], "sender")) {
        unknown_sender();
#endif
    } else {
        CHECK(0, "no part %s", argv[1]);
    }
    finish("refusals");
    return 0;
}
