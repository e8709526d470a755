/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * omp_target_location and omp_target_pointer of host-stub/c/omp_target.c. With STAND_IN, over functions
 * that stand in for an OpenMP runtime with two devices: no runtime of these compilers has a device on a
 * machine without one. Without it, over the compiler's own runtime, whatever devices that has.
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

int omp_target_location(void *host_pointer, int *device, void **device_pointer);
int omp_target_pointer(void *host_pointer, const int *device, void **target_pointer);

#define NEED(what)                                                       \
    do {                                                                 \
        if (!(what)) {                                                   \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
            exit(1);                                                     \
        }                                                                \
    } while (0)

static char variable[64], elsewhere[64];

#ifdef STAND_IN
static char first[64], second[64];

int omp_get_num_devices(void)
{
    return 2;
}

/* The variable is mapped on device 1, its second half on device 0 too. */
static char *mapped(const void *pointer, int device)
{
    long at = (const char *)pointer - variable;
    if (at < 0 || at >= 64 || device < 0 || device > 1 || (device == 0 && at < 32))
        return NULL;
    return (device ? second : first) + at;
}

int omp_target_is_present(const void *pointer, int device)
{
    return mapped(pointer, device) != NULL;
}

void *omp_get_mapped_ptr(const void *pointer, int device)
{
    return mapped(pointer, device);
}
#endif

int main(void)
{
    int device = 77, no_device = omp_get_num_devices() + 5;
    void *found = NULL;
    NEED(omp_target_location(elsewhere, &device, &found) == 0 && device == -1 && found == elsewhere);
    NEED(no_device > 0);
#ifdef STAND_IN
    NEED(omp_target_location(variable + 3, &device, &found) == 0);
    NEED(device == 1 && found == second + 3);
    NEED(omp_target_location(variable + 40, &device, &found) == 0);
    NEED(device == 0 && found == first + 40);
    device = 1;
    NEED(omp_target_pointer(variable + 40, &device, &found) == 0 && found == second + 40);
    NEED(omp_target_pointer(elsewhere, &device, &found) == -1);
    NEED(omp_target_pointer(variable, &no_device, &found) == -1);
    device = 0;
    NEED(omp_target_pointer(variable, &device, &found) == -1);
#else
    for (int each = 0; each < omp_get_num_devices(); each++) {
#pragma omp target data map(tofrom : variable) device(each)
        {
            NEED(omp_target_pointer(variable, &each, &found) == 0 && found != NULL);
            NEED(omp_target_location(variable, &device, &found) == 0 && device >= 0);
        }
    }
    NEED(omp_target_location(variable, &device, &found) == 0);
    NEED(omp_get_num_devices() > 0 || (device == -1 && found == variable));
#endif
    printf("target: %d devices, right\n", omp_get_num_devices());
    return 0;
}
