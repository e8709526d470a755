/* Functions that are the same in all series. */
#include "opal_config.h"

#include "opal/datatype/opal_convertor.h"
#include "opal/mca/btl/btl.h"
#include "opal/mca/rcache/rcache.h"
#include "opal/util/proc.h"

#include "host.h"

const char *mca_btl_ofi_host_other_structure(void)
{
    /* Open MPI's description of a class has the size that its own build uses. */
#define CHECK_SIZE(type) if (sizeof(type) != type##_class.cls_sizeof) return #type
    CHECK_SIZE(opal_convertor_t);
    CHECK_SIZE(mca_btl_base_descriptor_t);
    CHECK_SIZE(mca_rcache_base_registration_t);
#undef CHECK_SIZE
    return NULL;
}

opal_proc_t *mca_btl_ofi_host_keep_process(uint32_t jobid, uint32_t vpid)
{
    opal_process_name_t name = {.jobid = jobid, .vpid = vpid};
    opal_proc_t *proc = opal_proc_for_name(name);
    if (NULL != proc) {
        /* The reference is never released: at its end, Open MPI releases each process until no
         * reference is left. */
        OBJ_RETAIN(proc);
    }
    return proc;
}

void mca_btl_ofi_host_construct(mca_btl_base_descriptor_t *descriptor)
{
    OBJ_CONSTRUCT(descriptor, mca_btl_base_descriptor_t);
}

bool mca_btl_ofi_host_needs_packing(const opal_convertor_t *convertor)
{
    return 0 != opal_convertor_need_buffers(convertor);
}

void *mca_btl_ofi_host_pack(opal_convertor_t *convertor, void *to, size_t *size)
{
    struct iovec iov = {.iov_base = to, .iov_len = *size};
    uint32_t count = 1;
    return opal_convertor_pack(convertor, &iov, &count, size) < 0 ? NULL : iov.iov_base;
}
