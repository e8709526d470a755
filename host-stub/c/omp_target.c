/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The places of memory that OpenMP knows: two functions of the note "MPI-OpenMP Interface", on top
 * of the runtime's own omp_target_is_present and omp_get_mapped_ptr (OpenMP 5.1). Build this file
 * with the program that uses OpenMP, with that program's compiler and its OpenMP flag:
 *
 *   int omp_target_location(void *host_pointer, int *device, void **device_pointer);
 *   int omp_target_pointer(void *host_pointer, const int *device, void **target_pointer);
 *
 * Both return 0, or -1 if the pointer has no such storage. Define OMP_TARGET_NO_MAPPED_PTR for a
 * runtime without omp_get_mapped_ptr (GCC before 13, LLVM before 16): then use_device_ptr gives the
 * address.
 */
#include <omp.h>
#include <stddef.h>

int omp_target_location(void *host_pointer, int *device, void **device_pointer);
int omp_target_pointer(void *host_pointer, const int *device, void **target_pointer);

/* The device that has storage for the host pointer, and the address there; without one, -1 and the
 * pointer itself. */
int omp_target_location(void *host_pointer, int *device, void **device_pointer)
{
    int count = omp_get_num_devices();
    for (*device = 0; *device < count; ++*device)
        if (omp_target_pointer(host_pointer, device, device_pointer) == 0)
            return 0;
    *device = -1;
    *device_pointer = host_pointer;
    return 0;
}

/* Finds one device's storage for the host pointer. */
int omp_target_pointer(void *host_pointer, const int *device, void **target_pointer)
{
    if (!omp_target_is_present(host_pointer, *device))
        return -1;
#ifdef OMP_TARGET_NO_MAPPED_PTR
    void *mapped = host_pointer;
#pragma omp target data use_device_ptr(mapped) device(*device)
    *target_pointer = mapped;
#else
    *target_pointer = omp_get_mapped_ptr(host_pointer, *device);
#endif
    return *target_pointer == NULL ? -1 : 0;
}
