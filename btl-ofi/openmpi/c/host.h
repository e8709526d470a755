/* Parts of Open MPI that only its macros reach, as functions. One file per series implements these
 * functions. */
#ifndef MCA_BTL_OFI_HOST_H
#define MCA_BTL_OFI_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mca_base_component_2_1_0_t;
struct mca_btl_base_descriptor_t;
struct mca_btl_base_endpoint_t;
struct mca_btl_base_module_t;
struct opal_convertor_t;
struct opal_proc_t;

/* Publishes `size` bytes under the component's name for all processes of the job. Returns an OPAL_* code. */
int mca_btl_ofi_host_modex_send(const struct mca_base_component_2_1_0_t *component, const void *data, size_t size);

/* Fetches what `proc` published: *data is malloc'ed for the caller. Returns an OPAL_* code. */
int mca_btl_ofi_host_modex_recv(const struct mca_base_component_2_1_0_t *component, const struct opal_proc_t *proc,
                                void **data, size_t *size);

/* Asks the runtime to end the job with `message`, and ends this process. Does not return. */
void mca_btl_ofi_host_abort(int status, const char *message);

/* The process of this name, which Open MPI adds if it does not know it yet; NULL if Open MPI cannot add the process.
 * Keeps a reference until Open MPI ends, because Open MPI frees a process without references. */
struct opal_proc_t *mca_btl_ofi_host_keep_process(uint32_t jobid, uint32_t vpid);

/* Hands a message to the function that is registered for its tag. `endpoint` may be NULL. Returns false if there is no
 * such function. */
bool mca_btl_ofi_host_receive(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint, uint8_t tag,
                              const void *data, size_t size);

/* A structure that the running Open MPI has with another size than the headers of this build, or NULL. An Open MPI with
 * another configuration (--enable-debug, --with-cuda) has other structures in the same series. */
const char *mca_btl_ofi_host_other_structure(void);

/* Makes a descriptor an object of Open MPI. The memory is zeroed. */
void mca_btl_ofi_host_construct(struct mca_btl_base_descriptor_t *descriptor);

/* Whether the convertor's data has to be copied before it is sent. */
bool mca_btl_ofi_host_needs_packing(const struct opal_convertor_t *convertor);

/* Packs up to `*size` bytes to `to`, and advances the convertor; sets `*size`. Without `to`, which is for data that needs no
 * packing, packs nothing. Returns the address of the bytes, or NULL. */
void *mca_btl_ofi_host_pack(struct opal_convertor_t *convertor, void *to, size_t *size);

#endif
