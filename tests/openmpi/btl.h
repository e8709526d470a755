/* For programs that call the component's table of the BTL as Open MPI does. */
#ifndef BTL_H
#define BTL_H

#include "opal_config.h"

#include "opal/constants.h"
#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/btl.h"
#include "opal/util/proc.h"

#include "check.h"

enum { HANDLE = 256 };
typedef struct mca_btl_base_endpoint_t endpoint_t;
typedef mca_btl_base_registration_handle_t handle_t;
/* A registration as another rank uses it. */
typedef struct { uint64_t at; char handle[HANDLE]; } window_t;

static mca_btl_base_module_t *btl;

static inline void find(void)
{
    mca_btl_base_selected_module_t *selected;
    OPAL_LIST_FOREACH(selected, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t) {
        if (0 == strcmp(selected->btl_component->btl_version.mca_component_name, "ofi_rs")) {
            btl = selected->btl_module;
        }
    }
    CHECK(btl, "no module of ofi_rs");
}

static inline opal_proc_t *process(int rank)
{
    opal_process_name_t name = opal_proc_local_get()->proc_name;
    name.vpid = rank;
    opal_proc_t *proc = opal_proc_for_name(name);
    CHECK(proc, "no process %d", rank);
    return proc;
}

static inline handle_t *expose(void *memory, size_t size, window_t *mine)
{
    handle_t *handle = btl->btl_register_mem(btl, MCA_BTL_ENDPOINT_ANY, memory, size, MCA_BTL_REG_FLAG_ACCESS_ANY);
    CHECK(handle && btl->btl_registration_handle_size <= HANDLE, "registering memory");
    memcpy(mine->handle, handle, btl->btl_registration_handle_size);
    mine->at = (uint64_t) (uintptr_t) memory;
    return handle;
}

/* Whether a call did not succeed for lack of room; makes progress if so. */
static inline int is_again(int code)
{
    int again = OPAL_ERR_OUT_OF_RESOURCE == code || OPAL_ERR_TEMP_OUT_OF_RESOURCE == code;
    if (again) btl->btl_component->btl_progress();
    return again;
}

#endif
