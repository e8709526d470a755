/* Calls the component's table as Open MPI does where the component has no messages, or has not added the sender.
 * Usage: refusals NAME PART, with the component's name. Parts, all with two ranks:
 *   mode     btl_ofi_mode 0: a descriptor is asked for, as osc/rdma of 5.0 does for windows by messages
 *   sender   btl_ofi_mode 2, 5.0 and later: a request of active-message RDMA from a process that was not added */
#include "opal_config.h"

#include "opal/constants.h"
#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/btl.h"
#include "opal/util/proc.h"

#include "check.h"

typedef struct mca_btl_base_endpoint_t endpoint_t;

static mca_btl_base_module_t *btl;
static opal_proc_t *other;
static endpoint_t *peer;

static void find(const char *name)
{
    mca_btl_base_selected_module_t *selected;
    OPAL_LIST_FOREACH(selected, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t) {
        if (0 == strcmp(selected->btl_component->btl_version.mca_component_name, name)) {
            btl = selected->btl_module;
        }
    }
    CHECK(btl, "no module of %s", name);
}

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

/* A descriptor without bytes would be written to. */
static void no_messages(void)
{
    CHECK(!(btl->btl_flags & MCA_BTL_FLAGS_SEND), "run with btl_ofi_mode 0");
    CHECK(OPAL_SUCCESS == btl->btl_register_error(btl, report), "register_error");
    CHECK(!btl->btl_alloc(btl, peer, MCA_BTL_NO_ORDER, 64, MCA_BTL_DES_SEND_ALWAYS_CALLBACK), "a descriptor");
    CHECK(1 == reports, "%d reports", reports);
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

/* A request, with a descriptor that the component has back at once. */
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
    CHECK(world_size == 2 && argc == 3, "run with 2 ranks, a name and a part");
    find(argv[1]);
    opal_process_name_t name = opal_proc_local_get()->proc_name;
    name.vpid = 1 - world_rank;
    other = opal_proc_for_name(name);
    CHECK(other, "no process %d", 1 - world_rank);
    add();
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == strcmp(argv[2], "mode")) {
        no_messages();
#if OPAL_MAJOR_VERSION >= 5
    } else if (0 == strcmp(argv[2], "sender")) {
        unknown_sender();
#endif
    } else {
        CHECK(0, "no part %s", argv[2]);
    }
    finish("refusals");
    return 0;
}
