/* Open MPI 4.1: the modex goes through opal_pmix, a table of functions, and values of infos are copied to a buffer. */
#include "ompi_config.h"

#include "opal/mca/pmix/pmix.h"
#include "opal/util/info.h"

#include "ompi/communicator/communicator.h"
#include "ompi/mca/osc/osc.h"
#include "ompi/proc/proc.h"

#include "osc.h"

static char published_key[] = "osc.ofi_rs";

int mca_osc_ofi_host_publish(uint32_t number)
{
    int rc = OPAL_ERROR;
    if (NULL == opal_pmix.put) {
        return OPAL_ERR_NOT_AVAILABLE;
    }
    OPAL_MODEX_SEND_VALUE(rc, OPAL_PMIX_GLOBAL, published_key, &number, OPAL_UINT32);
    return rc;
}

bool mca_osc_ofi_host_published(ompi_communicator_t *comm, int rank, uint32_t *number)
{
    int rc = OPAL_ERROR;
    uint32_t *found = number;
    opal_process_name_t *name = &ompi_comm_peer_lookup(comm, rank)->super.proc_name;
    OPAL_MODEX_RECV_VALUE_IMMEDIATE(rc, published_key, name, &found, OPAL_UINT32);
    return OPAL_SUCCESS == rc;
}

bool mca_osc_ofi_host_info(opal_info_t *info, const char *key, char *value, int length)
{
    int found = 0;
    if (NULL == info || OPAL_SUCCESS != opal_info_get(info, key, length, value, &found)) {
        return false;
    }
    return 0 != found;
}
