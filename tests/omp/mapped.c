/* SPDX-License-Identifier: BSD-3-Clause */
/* The host finds variables that OpenMP mapped, without further calls of the program. The program defines
 * functions in the place of a runtime with two devices, which are the host's simulated devices. The
 * runtimes of these compilers have no device on a machine without one, and no omp_get_mapped_ptr. The
 * runtime's and the host's numbers of a device are equal. */
#include "common.h"

#define WORDS 64
#define BYTES (WORDS * sizeof(uint64_t))

static uint64_t variable[WORDS], received[WORDS], plain[WORDS], memory[WORDS];
/* The addresses of the mappings: the first on device 1, the second on device 0. NULL means that the
 * variable is not mapped yet. */
static char *variable_there, *received_there;

void *omp_get_mapped_ptr(const void *pointer, int device);

int omp_get_num_devices(void) {
    return 2;
}

void *omp_get_mapped_ptr(const void *pointer, int device) {
    uintptr_t at = (uintptr_t)pointer;
    uintptr_t base = (uintptr_t)(device ? variable : received);
    char *there = device ? variable_there : received_there;
    if (there == NULL || device < 0 || device > 1 || at < base || at >= base + BYTES)
        return NULL;
    return there + (at - base);
}

int omp_target_is_present(const void *pointer, int device) {
    return omp_get_mapped_ptr(pointer, device) != NULL;
}

int main(void) {
    uint64_t there[WORDS];
    int device = 77;
    void *address = NULL;
    MUST(host_init());
    int rank = host_rank(), size = host_size(), next = (rank + 1) % size;
    int before = (rank + size - 1) % size;
    CHECK(host_device_count() == 2, "%d devices", host_device_count());
    MUST(host_target_location(variable, &device, &address));
    CHECK(device == -1 && address == variable, "found on %d before it was mapped", device);

    /* Simulates the mapping of both variables. The device's values differ from the values of the
     * host. */
    MUST(host_device_alloc(1, BYTES, (void **)&variable_there));
    MUST(host_device_alloc(0, BYTES, (void **)&received_there));
    for (uint64_t i = 0; i < WORDS; i++)
        there[i] = 1000 * (uint64_t)rank + i;
    MUST(host_device_write(variable_there, there, BYTES));
    MUST(host_target_location(variable + 3, &device, &address));
    CHECK(device == 1 && address == variable_there + 24, "found on %d", device);
    MUST(host_target_location(received, &device, &address));
    CHECK(device == 0 && address == received_there, "found on %d", device);

    host_win_t *win = NULL;
    MUST(host_win_create(memory, BYTES, 8, &win));
    MUST(host_win_fence(win));
    MUST(host_put(variable, BYTES, next, 0, win));
    MUST(host_win_fence(win));
    MUST(host_get(received, BYTES, rank, 0, win));
    MUST(host_win_fence(win));
    memset(there, 0, BYTES);
    MUST(host_device_read(there, received_there, BYTES));
    for (uint64_t i = 0; i < WORDS; i++) {
        CHECK(memory[i] == 1000 * (uint64_t)before + i, "word %d is %d", (int)i, (int)memory[i]);
        CHECK(there[i] == memory[i], "got word %d is %d", (int)i, (int)there[i]);
        CHECK(variable[i] == 0 && received[i] == 0, "the host's word %d changed", (int)i);
    }
    /* Host memory stays host memory; an access beyond the end of a mapping is refused. */
    MUST(host_get(plain, BYTES, rank, 0, win));
    MUST(host_win_fence(win));
    CHECK(plain[1] == 1000 * (uint64_t)before + 1, "plain word 1 is %d", (int)plain[1]);
    CHECK(host_put(variable + WORDS - 1, 16, next, 0, win) < 0, "a put beyond the mapping passed");
    MUST(host_win_fence(win));

    /* The mapping ends, and calls use the host's variable again. */
    char *first = variable_there, *second = received_there;
    variable_there = received_there = NULL;
    MUST(host_target_location(variable, &device, &address));
    CHECK(device == -1 && address == variable, "found on %d after it was mapped", device);
    MUST(host_device_free((void **)&first));
    MUST(host_device_free((void **)&second));
    MUST(host_win_free(&win));
    MUST(host_finalize());
    if (checks_failed == 0 && rank == 0)
        printf("mapped: right\n");
    return checks_failed != 0;
}
