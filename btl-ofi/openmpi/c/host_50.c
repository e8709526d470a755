/* Open MPI 5.0: the modex goes through PMIx itself. */
#include "opal_config.h"

#include <unistd.h>

#include "opal/constants.h"
#include "opal/mca/btl/btl.h"
#include "opal/mca/mca.h"
#include "opal/mca/pmix/pmix-internal.h"
#include "opal/util/proc.h"

#include "host.h"

int mca_btl_ofi_host_modex_send(const mca_base_component_t *component, const void *data, size_t size)
{
    int rc = OPAL_ERROR;
    OPAL_MODEX_SEND(rc, PMIX_GLOBAL, component, (void *) data, size);
    return rc;
}

int mca_btl_ofi_host_modex_recv(const mca_base_component_t *component, const opal_proc_t *proc, void **data,
                                size_t *size)
{
    int rc = OPAL_ERROR;
    uint8_t *bytes = NULL;
    OPAL_MODEX_RECV(rc, component, &proc->proc_name, (void **) &bytes, size);
    *data = bytes;
    return rc;
}

void mca_btl_ofi_host_abort(int status, const char *message)
{
    (void) PMIx_Abort(status, message, NULL, 0);
    /* Under mpirun --enable-recovery the job continues, and in 6.0 this process, too; then Open MPI's own abort ends
     * it. */
    _exit(status);
}

bool mca_btl_ofi_host_receive(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint, uint8_t tag,
                              const void *data, size_t size)
{
    if (tag >= MCA_BTL_TAG_MAX || NULL == mca_btl_base_active_message_trigger[tag].cbfunc) {
        return false;
    }
    mca_btl_base_segment_t segment = {.seg_addr = {.pval = (void *) data}, .seg_len = size};
    mca_btl_base_receive_descriptor_t descriptor = {
        .endpoint = endpoint,
        .des_segments = &segment,
        .des_segment_count = 1,
        .tag = tag,
        .cbdata = mca_btl_base_active_message_trigger[tag].cbdata,
    };
    mca_btl_base_active_message_trigger[tag].cbfunc(btl, &descriptor);
    return true;
}
