/* Windows and buffers on a device: each rank puts from its device memory to the next rank's, with each
 * name of the buffer's place that a call accepts, and adds to a counter there.
 *
 *   host-stub launch -n 2 --mca host_pretended_devices 1 -- ./device
 */
#include "example.h"

#define WORDS 8

int main(void) {
    MUST(host_init());
    int rank = host_rank(), size = host_size(), device = -2;
    EXPECT(host_device_count() >= 1 && host_device_level() >= 2);

    /* A window on device 0, and one on the host; the device may differ between ranks. */
    host_comm_t *world = NULL;
    host_info_t *info = NULL;
    host_win_t *win = NULL;
    MUST(host_comm_world(&world));
    MUST(host_info_create(&info));
    MUST(host_info_set(info, "device_num", "0"));
    MUST(host_win_allocate_over(world, 4096, 8, info, &win));
    MUST(host_info_set(info, "device_num", "99"));
    host_win_t *none = NULL;
    EXPECT(host_win_allocate_over(world, 64, 8, info, &none) < 0 && none == NULL);
    MUST(host_info_free(&info));

    /* A variable of the host that is mapped on the device. */
    static uint64_t variable[WORDS];
    void *memory = NULL, *found = NULL, *encoded = NULL;
    MUST(host_device_alloc(0, sizeof variable, &memory));
    MUST(host_device_associate(variable, sizeof variable, 0, memory));
    for (int i = 0; i < WORDS; i++)
        variable[i] = (uint64_t)(100 * rank + i);
    MUST(host_device_write(memory, variable, sizeof variable));
    memset(variable, 0, sizeof variable);

    MUST(host_target_location(&variable[1], &device, &found));
    EXPECT(device == 0 && found == (char *)memory + 8);
    MUST(host_target_location(&device, &device, &found));
    EXPECT(device == -1 && found == (void *)&device);
    MUST(host_target_pointer(variable, 0, &found));
    EXPECT(found == memory && host_target_pointer(&device, 0, &found) < 0);
    MUST(host_encode_location(variable, 0, &encoded));

    /* The same put, with the device's pointer, the mapped variable, and the encoded location. */
    const void *origins[] = {memory, variable, encoded};
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    uint64_t one = 1, got[WORDS];
    MUST(host_win_fence(win));
    for (int way = 0; way < 3; way++)
        MUST(host_put(origins[way], sizeof variable, next, (uint64_t)(way * WORDS), win));
    for (int to = 0; to < size; to++)
        MUST(host_accumulate(&one, 1, HOST_UINT64, HOST_SUM, to, 3 * WORDS, win));
    MUST(host_win_fence(win));
    for (int way = 0; way < 3; way++) {
        MUST(host_device_read(got, (char *)host_win_base(win) + way * (int)sizeof got, sizeof got));
        for (int i = 0; i < WORDS; i++)
            EXPECT(got[i] == (uint64_t)(100 * before + i));
    }
    MUST(host_device_read(got, (char *)host_win_base(win) + 3 * sizeof got, 8));
    EXPECT(got[0] == (uint64_t)size);

    MUST(host_device_disassociate(variable, 0));
    MUST(host_device_free(&memory));
    EXPECT(memory == NULL && host_device_free(&memory) < 0);
    MUST(host_win_free(&win));
    MUST(host_finalize());
    printf("passed\n");
    return 0;
}
