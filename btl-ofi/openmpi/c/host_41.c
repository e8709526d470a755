/* Open MPI 4.1: the modex goes through opal_pmix, a table of functions. */
#include "opal_config.h"

#include <unistd.h>

#include "opal/constants.h"
#include "opal/mca/btl/btl.h"
#include "opal/mca/mca.h"
#include "opal/mca/pmix/pmix.h"
#include "opal/util/proc.h"

#include "host.h"

int mca_btl_ofi_host_modex_send(const mca_base_component_t *component, const void *data, size_t size)
{
    int rc = OPAL_ERROR;
    OPAL_MODEX_SEND(rc, OPAL_PMIX_GLOBAL, component, data, size);
    return rc;
}

int mca_btl_ofi_host_modex_recv(const mca_base_component_t *component, const opal_proc_t *proc, void **data,
                                size_t *size)
{
    int rc = OPAL_ERROR;
    uint8_t *bytes = NULL;
    OPAL_MODEX_RECV(rc, component, &proc->proc_name, &bytes, size);
    *data = bytes;
    return rc;
}

void mca_btl_ofi_host_abort(int status, const char *message)
{
    if (NULL != opal_pmix.abort) {
        (void) opal_pmix.abort(status, message, NULL);
    }
    /* The call may return; then Open MPI's own abort ends this process. */
    _exit(status);
}

bool mca_btl_ofi_host_receive(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint, uint8_t tag,
                              const void *data, size_t size)
{
    mca_btl_base_segment_t segment = {.seg_addr = {.pval = (void *) data}, .seg_len = size};
    mca_btl_base_descriptor_t descriptor = {.des_segments = &segment, .des_segment_count = 1};
    /* This series does not pass the sender. */
    (void) endpoint;
    if (tag >= MCA_BTL_TAG_MAX || NULL == mca_btl_base_active_message_trigger[tag].cbfunc) {
        return false;
    }
    mca_btl_base_active_message_trigger[tag].cbfunc(btl, tag, &descriptor,
                                                    mca_btl_base_active_message_trigger[tag].cbdata);
    return true;
}
