/* SPDX-License-Identifier: BSD-3-Clause */
/* Compares OpenMP's list of devices with the list of the host. `numbers COUNT OWN` defines functions in the
 * place of a runtime with COUNT devices; device 0 maps a variable to memory of the host's device OWN. The
 * test that runs this program reads the differences in the log. */
#include "common.h"

#define BYTES 64

static char variable[BYTES], *there;
static int count;

int omp_get_num_devices(void) {
    return count;
}

void *omp_get_mapped_ptr(const void *pointer, int device) {
    const char *at = pointer;
    int is_ours = there && device == 0 && at >= variable && at < variable + BYTES;
    return is_ours ? there + (at - variable) : NULL;
}

int omp_target_is_present(const void *pointer, int device) {
    return omp_get_mapped_ptr(pointer, device) != NULL;
}

int main(int argc, char **argv) {
    int device = 77, own = argc == 3 ? atoi(argv[2]) : 0;
    void *address = NULL;
    count = argc == 3 ? atoi(argv[1]) : 0;
    MUST(host_init());
    MUST(host_device_alloc(own, BYTES, (void **)&there));
    /* The lookup runs several times, but each difference is reported once. */
    for (int i = 0; i < 3; i++) {
        MUST(host_target_location(variable + i, &device, &address));
        CHECK(device == own && address == there + i, "found on %d", device);
        MUST(host_target_pointer(variable + i, own, &address));
        CHECK(address == there + i, "not found on %d", own);
    }
    CHECK(host_target_pointer(variable, 1 - own, &address) < 0, "found on %d too", 1 - own);
    void *given = there;
    there = NULL;
    MUST(host_device_free(&given));
    MUST(host_finalize());
    if (checks_failed == 0)
        printf("numbers: right\n");
    return checks_failed != 0;
}
