/* Open MPI 5.0 and 6.0: the modex goes through PMIx itself, and values of infos are strings with a count of references. */
#include "ompi_config.h"

#include "opal/class/opal_cstring.h"
#include "opal/mca/pmix/pmix-internal.h"
#include "opal/util/info.h"

#include "ompi/communicator/communicator.h"
#include "ompi/mca/osc/osc.h"
#include "ompi/proc/proc.h"

#include "osc.h"

static const char published_key[] = "osc.ofi_rs";

int mca_osc_ofi_host_publish(uint32_t number)
{
    int rc = OPAL_ERROR;
    OPAL_MODEX_SEND_VALUE(rc, PMIX_GLOBAL, published_key, &number, PMIX_UINT32);
    return rc;
}

bool mca_osc_ofi_host_published(ompi_communicator_t *comm, int rank, uint32_t *number)
{
    int rc = OPAL_ERROR;
    uint32_t *found = number;
    opal_process_name_t *name = &ompi_comm_peer_lookup(comm, rank)->super.proc_name;
    OPAL_MODEX_RECV_VALUE_IMMEDIATE(rc, published_key, name, &found, PMIX_UINT32);
    return PMIX_SUCCESS == rc;
}

bool mca_osc_ofi_host_info(opal_info_t *info, const char *key, char *value, int length)
{
    int found = 0;
    opal_cstring_t *text = NULL;
    if (NULL == info || OPAL_SUCCESS != opal_info_get(info, key, &text, &found) || 0 == found) {
        return false;
    }
    (void) snprintf(value, (size_t) length + 1, "%s", text->string);
    OBJ_RELEASE(text);
    return true;
}
