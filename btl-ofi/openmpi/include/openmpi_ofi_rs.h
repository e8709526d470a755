/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Additions of Open MPI's component osc/ofi_rs to MPI's own calls: the level of device support, and copy functions of the
 * program for memory of devices. For C11 and C++11.
 *
 * Nothing is linked (before glibc 2.34: -ldl). Each call looks for the component that Open MPI has loaded. A call before
 * MPI_Init that finds no loaded component loads mca_osc_ofi_rs.so from the folders of OMPI_MCA_mca_base_component_path or from
 * OPENMPI_OFI_RS_FOLDER, and never unloads it. Without the component a call returns MPI_ERR_UNSUPPORTED_OPERATION and does
 * nothing, so one binary runs under any MPI.
 */
#ifndef OPENMPI_OFI_RS_H
#define OPENMPI_OFI_RS_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The folder into which the package puts the component. */
#ifndef OPENMPI_OFI_RS_FOLDER
#define OPENMPI_OFI_RS_FOLDER ""
#endif

/* Kinds of memory, by libfabric's numbers (enum fi_hmem_iface). */
#define MPIX_DEVICE_KIND_HOST 0
#define MPIX_DEVICE_KIND_CUDA 1

/*
 * The program's copy functions for memory of devices. The transport's own function replaces a function that is NULL. All
 * return the number of bytes, or a negative errno: -ENOSYS for an unknown kind. On an error the MPI call, or the call that
 * completes the operation, fails. Any thread of the process may call these functions, several at once; the functions must
 * not call MPI.
 *
 *     static const MPIX_Device_overrides mine = {MPIX_DEVICE_OVERRIDES, from_device, to_device};
 */
typedef struct MPIX_Device_overrides {
    uint64_t magic; /* the first four by MPIX_DEVICE_OVERRIDES */
    uint16_t major, minor;
    uint32_t size;
    /* Copies `size` bytes to `dest` from `count` runs, beginning at `offset` in the runs. `kinds` has the kind of each run;
     * kinds may be mixed. Returns when the bytes are copied. */
    ssize_t (*copy_from_hmem_iov)(void *dest, size_t size, const struct iovec *runs, const uint32_t *kinds, size_t count,
                                  uint64_t offset);
    /* Copies `size` bytes at `src` to the runs. */
    ssize_t (*copy_to_hmem_iov)(const struct iovec *runs, const uint32_t *kinds, size_t count, uint64_t offset, const void *src,
                                size_t size);
    /* Blocks at regular distances: count[1] rows of count[0] blocks of `block` bytes; block i of row j begins
     * i * stride[0] + j * stride[1] bytes after `base`. If NULL, the functions above are called with a run for each block. */
    ssize_t (*copy_from_hmem_strided)(void *dest, size_t size, const void *base, uint32_t kind, size_t block, const size_t *stride,
                                      const size_t *count);
    ssize_t (*copy_to_hmem_strided)(void *base, uint32_t kind, size_t block, const size_t *stride, const size_t *count,
                                    const void *src, size_t size);
    /* Large copies that are started on `stream` and complete later, if query_event is set too. Each of these functions writes
     * an event, or NULL if the copy is complete already. After -EAGAIN the functions above are called. */
    ssize_t (*copy_from_hmem_async)(void *stream, void *dest, size_t size, const struct iovec *runs, const uint32_t *kinds,
                                    size_t count, uint64_t offset, void **event);
    ssize_t (*copy_to_hmem_async)(void *stream, const struct iovec *runs, const uint32_t *kinds, size_t count, uint64_t offset,
                                  const void *src, size_t size, void **event);
    /* 0 while such a copy is under way, 1 if it is complete, a negative errno if it failed. Does not wait. */
    int32_t (*query_event)(void *event);
    void *stream;
} MPIX_Device_overrides;

#define MPIX_DEVICE_OVERRIDES UINT64_C(0x314452564f4c5442), 1, 5, (uint32_t) sizeof(MPIX_Device_overrides)

/* The component; NULL if the component is not found. */
static inline void *openmpi_ofi_rs_image(void)
{
    char path[4096];
    const char *folders = getenv("OMPI_MCA_mca_base_component_path");
    void *image = dlopen("mca_btl_ofi_rs.so", RTLD_NOW | RTLD_NOLOAD);
    while (!image && folders && *folders) {
        size_t length = strcspn(folders, ":");
        int written = snprintf(path, sizeof path, "%.*s/mca_osc_ofi_rs.so", (int) length, folders);
        if (written > 0 && (size_t) written < sizeof path)
            image = dlopen(path, RTLD_NOW);
        folders += length;
        folders += *folders == ':';
    }
    return image ? image : dlopen(OPENMPI_OFI_RS_FOLDER "/mca_osc_ofi_rs.so", RTLD_NOW);
}

/* A function of the component; NULL if the component has no function of this name. */
static inline void *openmpi_ofi_rs_function(const char *name)
{
    void *image = openmpi_ofi_rs_image();
    return image ? dlsym(image, name) : NULL;
}

/* Makes a key whose attribute of MPI_COMM_WORLD is `value`, for the component: Open MPI 6.0 has MPI's functions in a library that
 * ompi_info does not load, so a component must not name them. */
static inline int openmpi_ofi_rs_attribute(void *value, int *key)
{
    int begun = 0, ended = 0, rc;
    (void) PMPI_Initialized(&begun);
    (void) PMPI_Finalized(&ended);
    if (!begun || ended)
        return MPI_ERR_OTHER;
    rc = PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, key, NULL);
    return MPI_SUCCESS == rc ? PMPI_Comm_set_attr(MPI_COMM_WORLD, *key, value) : rc;
}

/*
 * Returns the key of an attribute of MPI_COMM_WORLD, the level of device support, between MPI_Init and MPI_Finalize:
 *
 *     int key, *level, found;
 *     if (MPIX_Query_device_level(&key) == MPI_SUCCESS && MPI_Comm_get_attr(MPI_COMM_WORLD, key, &level, &found) == MPI_SUCCESS) ...
 *
 * *level is 1 if windows and buffers of calls on them must lie in memory of the host, 2 if they may also lie in memory of
 * devices. Each call of this function updates the level. Local.
 */
static inline int MPIX_Query_device_level(int *key)
{
    int (*query)(int *, int (*)(void *, int *)) = NULL;
    *(void **) &query = openmpi_ofi_rs_function("openmpi_ofi_rs_query_device_level");
    return query ? query(key, openmpi_ofi_rs_attribute) : MPI_ERR_UNSUPPORTED_OPERATION;
}

/*
 * Sets the functions that copy memory of devices, at once for all windows and buffers. Any thread may call this function,
 * before MPI_Init or later. NULL sets the transport's own functions again. Operations under way keep earlier functions for
 * their local buffers. The table is copied; its functions must be callable until MPI_Finalize has returned, also after others
 * were set. Local. MPI_ERR_ARG: the table is invalid.
 */
static inline int MPIX_Set_device_overrides(const MPIX_Device_overrides *overrides)
{
    int (*set)(const MPIX_Device_overrides *) = NULL;
    *(void **) &set = openmpi_ofi_rs_function("openmpi_ofi_rs_set_overrides");
    return set ? set(overrides) : MPI_ERR_UNSUPPORTED_OPERATION;
}

#ifdef __cplusplus
}
#endif

#endif
