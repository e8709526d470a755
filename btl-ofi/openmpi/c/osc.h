/* Functions of the component osc for parts of Open MPI that only macros and inline functions reach. The types are
 * Open MPI's; a file that includes this one includes their headers before. */
#ifndef MCA_OSC_OFI_HOST_H
#define MCA_OSC_OFI_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- communicators and processes ---- */

/* The caller's rank in the communicator, and the number of its ranks. */
int mca_osc_ofi_host_rank(struct ompi_communicator_t *comm);
int mca_osc_ofi_host_size(struct ompi_communicator_t *comm);

/* The name of the process that has a rank: the number of its job in the upper half, its number in the job in the lower. */
uint64_t mca_osc_ofi_host_process(struct ompi_communicator_t *comm, int rank);

/* Whether the process that has a rank has this process's architecture: sizes of types and byte order. */
bool mca_osc_ofi_host_is_alike(struct ompi_communicator_t *comm, int rank);

/* Whether Open MPI started the process on this node. */
bool mca_osc_ofi_host_is_beside(struct ompi_communicator_t *comm, int rank);

/* Sends `size` bytes of each rank to all ranks, in the order of the ranks. Collective. Returns an OMPI_*
 * code. */
int mca_osc_ofi_host_allgather(struct ompi_communicator_t *comm, const void *mine, size_t size, void *all);

/* Publishes a number for all processes of the job. Returns an OPAL_* code. */
int mca_osc_ofi_host_publish(uint32_t number);

/* Reads the number that the process of a rank published, without waiting for it; false if it published none.
 * */
bool mca_osc_ofi_host_published(struct ompi_communicator_t *comm, int rank, uint32_t *number);

/* The ranks in the window of a group's members. `ranks` has room for the group's size. False if a member is not in the window.
 * */
int mca_osc_ofi_host_group_size(struct ompi_group_t *group);
bool mca_osc_ofi_host_group_ranks(struct ompi_group_t *group, struct ompi_win_t *win, int *ranks);

/* ---- windows ---- */

ompi_osc_base_module_t *mca_osc_ofi_host_module(struct ompi_win_t *win);
void mca_osc_ofi_host_set_module(struct ompi_win_t *win, ompi_osc_base_module_t *module);
void mca_osc_ofi_host_set_flags(struct ompi_win_t *win, uint16_t flags);
void mca_osc_ofi_host_set_name(struct ompi_win_t *win, const char *name);

/* The value of a key; false if the info does not have the key. `info` may be NULL. */
bool mca_osc_ofi_host_info(struct opal_info_t *info, const char *key, char *value, int length);

/* The priority of another component for the window; below 0 if there is no component of this name, or it does not serve
 * the window. */
int mca_osc_ofi_host_priority(const char *name, struct ompi_win_t *win, void **base, size_t size, ptrdiff_t unit,
                              struct ompi_communicator_t *comm, struct opal_info_t *info, int flavor);

/* Lets another component make the window: the component `name` or, if NULL, the component with the highest priority. `taken` is
 * its name, NULL if there is none. */
int mca_osc_ofi_host_delegate(const ompi_osc_base_component_t *own, const char *name, struct ompi_win_t *win, void **base, size_t size,
                              ptrdiff_t unit, struct ompi_communicator_t *comm, struct opal_info_t *info, int flavor,
                              int *model, const char **taken);

/* ---- datatypes and operations ---- */

/* `count` items of a type, described by their size and layout. */
struct mca_osc_ofi_host_items {
    /* Bytes from the buffer's address to the first byte, if they are contiguous. */
    ptrdiff_t begin;
    /* Bytes of all items, without gaps. */
    size_t bytes;
    bool in_a_row;
    /* For items that are not contiguous: the description of the type, as long as it lives, and the bytes from an item to the
     * next. */
    const union dt_elem_desc *entries;
    size_t entry_count;
    ptrdiff_t extent;
};
void mca_osc_ofi_host_items(struct ompi_datatype_t *type, size_t count, struct mca_osc_ofi_host_items *items);

/* Calls `visit` for each run of bytes, in the order of the type map. Returns an OMPI_* code. */
int mca_osc_ofi_host_runs(struct ompi_datatype_t *type, size_t count, void (*visit)(void *, ptrdiff_t, size_t), void *context);

/* The predefined type that a type is made of. */
struct mca_osc_ofi_host_element {
    struct ompi_datatype_t *type;
    /* OPAL_DATATYPE_*, or -1 for a type that is no single number. */
    int id;
    /* Bytes of its values, and from one element to the next in an array. */
    size_t size;
    size_t extent;
};
/* False if the type is made of several. */
bool mca_osc_ofi_host_element(struct ompi_datatype_t *type, struct mca_osc_ofi_host_element *element);

/* The number (OPAL_DATATYPE_*) of a predefined type of one value whose items are contiguous; -1 for any other type. */
int mca_osc_ofi_host_plain(struct ompi_datatype_t *type);

/* OMPI_OP_*, or OMPI_OP_NUM_OF_TYPES for MPI_NO_OP, or -1 for an operation that a program defined. */
int mca_osc_ofi_host_op(struct ompi_op_t *op);

/* A number for an operation on a predefined type, the same in all processes of a job; -1 if it is not defined. */
int mca_osc_ofi_host_code(struct ompi_op_t *op, struct ompi_datatype_t *type);

/* target = operand op target, by this number, on `count` elements. The values have `size` bytes, without gaps on both sides,
 * and each side is aligned as by malloc. Returns an OMPI_* code; MPI_ERR_OP for a number without an operation of this size.
 * */
int mca_osc_ofi_host_reduce(int code, size_t size, size_t count, const void *operand, void *target);

/* ---- requests ---- */

/* A request that is under way. */
struct ompi_request_t *mca_osc_ofi_host_request(struct ompi_win_t *win);
/* A completed request. */
struct ompi_request_t *mca_osc_ofi_host_request_over(void);
/* Ends a request that is under way, with an MPI error code. The caller must not use the request
 * afterwards.
 * */
void mca_osc_ofi_host_complete(struct ompi_request_t *request, int error);

/* ---- progress ---- */

int mca_osc_ofi_host_register_progress(int (*progress)(void));
int mca_osc_ofi_host_unregister_progress(int (*progress)(void));
void mca_osc_ofi_host_progress(void);
/* Whether threads of the program may call MPI at the same time. */
int mca_osc_ofi_host_has_threads(void);

#endif
