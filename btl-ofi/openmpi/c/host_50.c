/* Open MPI 5.0: the modex goes through PMIx itself. */
#include "opal_config.h"

#include "opal/constants.h"
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
}
