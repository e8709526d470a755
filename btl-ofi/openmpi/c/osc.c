/* The macros and inline functions that the component osc needs, the same in all series. */
#include "ompi_config.h"

#include <stdlib.h>
#include <string.h>

#include "opal/datatype/opal_convertor.h"
#include "opal/runtime/opal_progress.h"

#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/datatype/ompi_datatype_internal.h"
#include "ompi/group/group.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/mca/osc/base/base.h"
#include "ompi/mca/osc/base/osc_base_obj_convert.h"
#include "ompi/mca/osc/osc.h"
#include "ompi/op/op.h"
#include "ompi/proc/proc.h"
#include "ompi/request/request.h"
#include "ompi/win/win.h"

#include "osc.h"

/* ---- communicators and processes ---- */

int mca_osc_ofi_host_rank(ompi_communicator_t *comm)
{
    return ompi_comm_rank(comm);
}

int mca_osc_ofi_host_size(ompi_communicator_t *comm)
{
    return ompi_comm_size(comm);
}

uint64_t mca_osc_ofi_host_process(ompi_communicator_t *comm, int rank)
{
    const opal_process_name_t *name = &ompi_comm_peer_lookup(comm, rank)->super.proc_name;
    return (uint64_t) name->jobid << 32 | name->vpid;
}

bool mca_osc_ofi_host_is_alike(ompi_communicator_t *comm, int rank)
{
    return ompi_comm_peer_lookup(comm, rank)->super.proc_arch == opal_local_arch;
}

bool mca_osc_ofi_host_is_beside(ompi_communicator_t *comm, int rank)
{
    return OPAL_PROC_ON_LOCAL_NODE(ompi_comm_peer_lookup(comm, rank)->super.proc_flags);
}

int mca_osc_ofi_host_allgather(ompi_communicator_t *comm, const void *mine, size_t size, void *all)
{
    if (size > INT_MAX) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    return comm->c_coll->coll_allgather(mine, (int) size, MPI_BYTE, all, (int) size, MPI_BYTE, comm,
                                        comm->c_coll->coll_allgather_module);
}

int mca_osc_ofi_host_group_size(ompi_group_t *group)
{
    return ompi_group_size(group);
}

bool mca_osc_ofi_host_group_ranks(ompi_group_t *group, ompi_win_t *win, int *ranks)
{
    int size = ompi_group_size(group);
    int *members = calloc(size > 0 ? size : 1, sizeof(*members));
    if (NULL == members) {
        return false;
    }
    for (int i = 0; i < size; ++i) {
        members[i] = i;
    }
    int rc = ompi_group_translate_ranks(group, size, members, win->w_group, ranks);
    free(members);
    for (int i = 0; OMPI_SUCCESS == rc && i < size; ++i) {
        if (ranks[i] < 0) {
            return false;
        }
    }
    return OMPI_SUCCESS == rc;
}

/* ---- windows ---- */

ompi_osc_base_module_t *mca_osc_ofi_host_module(ompi_win_t *win)
{
    return win->w_osc_module;
}

void mca_osc_ofi_host_set_module(ompi_win_t *win, ompi_osc_base_module_t *module)
{
    win->w_osc_module = module;
}

void mca_osc_ofi_host_set_flags(ompi_win_t *win, uint16_t flags)
{
    win->w_flags |= flags;
}

void mca_osc_ofi_host_set_name(ompi_win_t *win, const char *name)
{
    (void) ompi_win_set_name(win, name);
}

int mca_osc_ofi_host_priority(const char *name, ompi_win_t *win, void **base, size_t size, ptrdiff_t unit,
                              ompi_communicator_t *comm, opal_info_t *info, int flavor)
{
    mca_base_component_list_item_t *item;
    OPAL_LIST_FOREACH (item, &ompi_osc_base_framework.framework_components, mca_base_component_list_item_t) {
        ompi_osc_base_component_t *component = (ompi_osc_base_component_t *) item->cli_component;
        if (0 == strcmp(name, component->osc_version.mca_component_name)) {
            return component->osc_query(win, base, size, unit, comm, info, flavor);
        }
    }
    return -1;
}

int mca_osc_ofi_host_delegate(const ompi_osc_base_component_t *own, const char *name, ompi_win_t *win, void **base,
                              size_t size, ptrdiff_t unit, ompi_communicator_t *comm, opal_info_t *info, int flavor,
                              int *model, const char **taken)
{
    mca_base_component_list_item_t *item;
    ompi_osc_base_component_t *best = NULL;
    int highest = -1;
    OPAL_LIST_FOREACH (item, &ompi_osc_base_framework.framework_components, mca_base_component_list_item_t) {
        ompi_osc_base_component_t *component = (ompi_osc_base_component_t *) item->cli_component;
        if (component == own || (NULL != name && 0 != strcmp(name, component->osc_version.mca_component_name))) {
            continue;
        }
        int priority = component->osc_query(win, base, size, unit, comm, info, flavor);
        /* Of equal priorities, Open MPI takes the first component. */
        if (priority > highest) {
            highest = priority;
            best = component;
        }
    }
    *taken = NULL == best ? NULL : best->osc_version.mca_component_name;
    return NULL == best ? OMPI_ERR_NOT_SUPPORTED : best->osc_select(win, base, size, unit, comm, info, flavor, model);
}

/* ---- datatypes and operations ---- */

void mca_osc_ofi_host_items(ompi_datatype_t *type, size_t count, struct mca_osc_ofi_host_items *items)
{
    items->begin = type->super.true_lb;
    items->bytes = type->super.size * count;
    /* 4.1 and 5.0 take a count of 32 bits, and only distinguish 1 from other counts. */
    items->in_a_row = opal_datatype_is_contiguous_memory_layout(&type->super, count < 2 ? (int32_t) count : 2);
    if (!items->in_a_row) {
        items->entries = type->super.desc.desc;
        items->entry_count = type->super.desc.used;
        items->extent = type->super.ub - type->super.lb;
    }
}

int mca_osc_ofi_host_runs(ompi_datatype_t *type, size_t count, void (*visit)(void *, ptrdiff_t, size_t), void *context)
{
    enum { MOST = 64 };
    struct iovec runs[MOST];
    opal_convertor_t convertor;
    /* An address within reach of every displacement; nothing is read there. */
    char *const base = (char *) ((uintptr_t) 1 << 62);
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    int rc = opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &type->super, count, base, 0, &convertor);
    bool done = OMPI_SUCCESS != rc;
    while (!done) {
        uint32_t got = MOST;
        size_t bytes = 0;
        done = 0 != opal_convertor_raw(&convertor, runs, &got, &bytes);
        for (uint32_t i = 0; i < got; ++i) {
            visit(context, (char *) runs[i].iov_base - base, runs[i].iov_len);
        }
    }
    opal_convertor_cleanup(&convertor);
    OBJ_DESTRUCT(&convertor);
    return rc;
}

bool mca_osc_ofi_host_element(ompi_datatype_t *type, struct mca_osc_ofi_host_element *element)
{
    ompi_datatype_t *found = type;
    if (!ompi_datatype_is_predefined(type)) {
        found = ompi_datatype_get_single_predefined_type_from_args(type);
        if (NULL == found) {
            return false;
        }
    }
    element->type = found;
    element->id = 1 == found->super.nbElems || 0 == found->super.nbElems ? (int) found->super.id : -1;
    element->size = found->super.size;
    element->extent = found->super.ub - found->super.lb;
    return true;
}

int mca_osc_ofi_host_plain(ompi_datatype_t *type)
{
    const opal_datatype_t *super = &type->super;
    bool in_a_row = 0 == super->true_lb && (size_t) (super->ub - super->lb) == super->size;
    return ompi_datatype_is_predefined(type) && 1 == super->nbElems && in_a_row ? (int) super->id : -1;
}

int mca_osc_ofi_host_op(ompi_op_t *op)
{
    if (op == &ompi_mpi_op_no_op.op) {
        return OMPI_OP_NUM_OF_TYPES;
    }
    return ompi_op_is_intrinsic(op) ? (int) op->op_type : -1;
}

/* Lays values out as an array of the type. */
static int lay_out(ompi_datatype_t *type, size_t count, const void *values, void *array)
{
    opal_convertor_t convertor;
    struct iovec iov = {.iov_base = (void *) values, .iov_len = type->super.size * count};
    uint32_t one = 1;
    size_t bytes = iov.iov_len;
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    int rc = opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor, &type->super, count, array, 0, &convertor);
    if (OMPI_SUCCESS == rc) {
        (void) opal_convertor_unpack(&convertor, &iov, &one, &bytes);
    }
    opal_convertor_cleanup(&convertor);
    OBJ_DESTRUCT(&convertor);
    return rc;
}

/* Packs the values of an array of the type. */
static int take_out(ompi_datatype_t *type, size_t count, const void *array, void *values)
{
    opal_convertor_t convertor;
    struct iovec iov = {.iov_base = values, .iov_len = type->super.size * count};
    uint32_t one = 1;
    size_t bytes = iov.iov_len;
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    int rc = opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &type->super, count, array, 0, &convertor);
    if (OMPI_SUCCESS == rc) {
        (void) opal_convertor_pack(&convertor, &iov, &one, &bytes);
    }
    opal_convertor_cleanup(&convertor);
    OBJ_DESTRUCT(&convertor);
    return rc;
}

static bool is_defined(ompi_op_t *op, ompi_datatype_t *type)
{
    if (!ompi_op_is_intrinsic(op) || !ompi_datatype_is_predefined(type)) {
        return false;
    }
    int index = ompi_op_ddt_map[type->id];
    return index >= 0 && NULL != op->o_func.intrinsic.fns[index];
}

/* Predefined objects have the same Fortran handles in all processes. */
enum { TYPE_BITS = 16 };

int mca_osc_ofi_host_code(ompi_op_t *op, ompi_datatype_t *type)
{
    if (!is_defined(op, type) || op->o_f_to_c_index < 0 || type->d_f_to_c_index < 0
        || op->o_f_to_c_index >> (31 - TYPE_BITS) != 0 || type->d_f_to_c_index >> TYPE_BITS != 0) {
        return -1;
    }
    return op->o_f_to_c_index << TYPE_BITS | type->d_f_to_c_index;
}

int mca_osc_ofi_host_reduce(int code, size_t size, size_t count, const void *operand, void *target)
{
    ompi_op_t *op = opal_pointer_array_get_item(ompi_op_f_to_c_table, code >> TYPE_BITS);
    ompi_datatype_t *type = opal_pointer_array_get_item(&ompi_datatype_f_to_c_table, code & ((1 << TYPE_BITS) - 1));
    if (NULL == op || NULL == type || !is_defined(op, type) || type->super.size != size) {
        return MPI_ERR_OP;
    }
    size_t extent = type->super.ub - type->super.lb;
    if (extent == type->super.size) {
        ompi_op_reduce(op, (void *) operand, target, count, type);
        return OMPI_SUCCESS;
    }
    char *arrays = calloc(2 * count, extent);
    if (NULL == arrays) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    char *second = arrays + count * extent;
    int rc = lay_out(type, count, operand, arrays);
    if (OMPI_SUCCESS == rc) {
        rc = lay_out(type, count, target, second);
    }
    if (OMPI_SUCCESS == rc) {
        ompi_op_reduce(op, arrays, second, count, type);
        rc = take_out(type, count, second, target);
    }
    free(arrays);
    return rc;
}

/* ---- requests ---- */

enum { UNDER_WAY, COMPLETED, FREED };

/* A request, which lives until it is completed and freed. */
typedef struct {
    ompi_request_t super;
    int32_t state;
} request_t;

static void let_go(request_t *request)
{
    OMPI_REQUEST_FINI(&request->super);
    OBJ_RELEASE(request);
}

static int free_request(ompi_request_t **at)
{
    request_t *request = (request_t *) *at;
    *at = MPI_REQUEST_NULL;
    if (COMPLETED == __atomic_exchange_n(&request->state, FREED, __ATOMIC_ACQ_REL)) {
        let_go(request);
    }
    return OMPI_SUCCESS;
}

static int cancel_request(ompi_request_t *request, int flag)
{
    (void) request;
    (void) flag;
    return MPI_ERR_REQUEST;
}

static void construct_request(request_t *request)
{
    request->super.req_type = OMPI_REQUEST_WIN;
    request->super.req_status._cancelled = 0;
    request->super.req_free = free_request;
    request->super.req_cancel = cancel_request;
    request->state = UNDER_WAY;
}

OBJ_CLASS_INSTANCE(request_t, ompi_request_t, construct_request, NULL);

ompi_request_t *mca_osc_ofi_host_request(ompi_win_t *win)
{
    request_t *request = OBJ_NEW(request_t);
    if (NULL == request) {
        return NULL;
    }
    OMPI_REQUEST_INIT(&request->super, false);
    request->super.req_mpi_object.win = win;
    request->super.req_state = OMPI_REQUEST_ACTIVE;
    request->super.req_complete = REQUEST_PENDING;
    request->super.req_status.MPI_ERROR = MPI_SUCCESS;
    return &request->super;
}

ompi_request_t *mca_osc_ofi_host_request_over(void)
{
    return &ompi_request_empty;
}

void mca_osc_ofi_host_complete(ompi_request_t *super, int error)
{
    request_t *request = (request_t *) super;
    super->req_status.MPI_ERROR = error;
    (void) ompi_request_complete(super, true);
    if (FREED == __atomic_exchange_n(&request->state, COMPLETED, __ATOMIC_ACQ_REL)) {
        let_go(request);
    }
}

/* ---- progress ---- */

int mca_osc_ofi_host_register_progress(int (*progress)(void))
{
    return opal_progress_register(progress);
}

int mca_osc_ofi_host_unregister_progress(int (*progress)(void))
{
    return opal_progress_unregister(progress);
}

void mca_osc_ofi_host_progress(void)
{
    opal_progress();
}

int mca_osc_ofi_host_has_threads(void)
{
    return opal_using_threads();
}
