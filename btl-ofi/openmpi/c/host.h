/* Parts of Open MPI that only its macros reach, as functions. One file per series implements them. */
#ifndef MCA_BTL_OFI_HOST_H
#define MCA_BTL_OFI_HOST_H

#include <stddef.h>

struct mca_base_component_2_1_0_t;
struct opal_proc_t;

/* Publishes `size` bytes under the component's name for all processes of the job. Returns an OPAL_* code. */
int mca_btl_ofi_host_modex_send(const struct mca_base_component_2_1_0_t *component, const void *data, size_t size);

/* Fetches what `proc` published: *data is malloc'ed for the caller. Returns an OPAL_* code. */
int mca_btl_ofi_host_modex_recv(const struct mca_base_component_2_1_0_t *component, const struct opal_proc_t *proc,
                                void **data, size_t *size);

/* Asks the runtime to end the job with `message`. May return. */
void mca_btl_ofi_host_abort(int status, const char *message);

#endif
