/* The level of device support as an attribute of the world, and its effect: `device_level LEVEL` runs with
 * one device and expects this level. At level 1 windows and buffers of device memory are refused. */
#include "example.h"

#define BYTES 64

/* A call on device memory: at level 1, the call is refused with the parameter's name and has no effect. */
static void allowed(int level, int code) {
    if (level > 1) {
        MUST(code);
        return;
    }
    EXPECT(code < 0);
    EXPECT(strstr(host_error_text(), "host_device_level is 1") != NULL);
}

/* Sends elements of a type there and back, with requests and without; the mark of the type decides which
 * memory is accepted. */
static void typed(host_win_t *win, int next, void *memory) {
    int64_t here[4] = {1, 2, 3, 4}, back[4] = {0};
    host_request_t *request = NULL;
    int marked = HOST_INT64 | HOST_ON_DEVICE;
    const host_layout_t two = {.magic = HOST_LAYOUT_MAGIC, .size = sizeof two, .count = 2, .length = 1, .stride = 3,
                               .datatype = HOST_INT64},
                        marked_two = {.magic = HOST_LAYOUT_MAGIC, .size = sizeof two, .count = 2, .length = 1,
                                      .stride = 3, .datatype = marked};
    MUST(host_win_lock(HOST_LOCK_EXCLUSIVE, next, win));
    MUST(host_put_typed(here, 4, HOST_INT64, next, 0, win));
    MUST(host_win_flush(next, win));
    MUST(host_rget_typed(back, 4, HOST_INT64, next, 0, win, &request));
    MUST(host_wait(&request));
    EXPECT(memcmp(here, back, sizeof here) == 0);
    EXPECT(host_put_typed(here, 4, marked, next, 0, win) < 0);
    EXPECT(host_rget_typed(back, 4, marked, next, 0, win, &request) < 0 && request == NULL);
    EXPECT(host_put_layout(here, &marked_two, next, 0, &two, win) < 0);
    EXPECT(strstr(host_error_text(), "is host memory") != NULL);
    EXPECT(host_get_typed(back, 4, 99, next, 0, win) == HOST_ERR_ARG);
    EXPECT(host_get_typed(NULL, 4, HOST_INT64, next, 0, win) == HOST_ERR_ARG);
    EXPECT(host_get_typed(back, (size_t)-1, HOST_INT64, next, 0, win) == HOST_ERR_ARG);
    if (memory) {
        MUST(host_get_typed(memory, 4, marked, next, 0, win));
        MUST(host_win_flush(next, win));
        MUST(host_rput_typed(memory, 4, marked, next, 32, win, &request));
        MUST(host_wait(&request));
        MUST(host_put_layout(memory, &marked_two, next, 0, &two, win));
        memset(back, 0, sizeof back);
        MUST(host_win_flush(next, win));
        MUST(host_get_typed(back, 4, HOST_INT64, next, 32, win));
        MUST(host_win_flush(next, win));
        EXPECT(memcmp(here, back, sizeof here) == 0);
    }
    MUST(host_win_unlock(next, win));
}

int main(int argc, char **argv) {
    host_comm_t *world = NULL, *other = NULL;
    host_win_t *win = NULL, *on_device = NULL, *dynamic = NULL;
    host_info_t *info = NULL;
    void *memory = NULL;
    EXPECT(argc == 2);
    int level = atoi(argv[1]), value = -1, found = -1;
    MUST(host_init());
    MUST(host_comm_world(&world));
    MUST(host_comm_dup(world, &other));
    MUST(host_comm_get_attr(world, HOST_ATTR_DEVICE_LEVEL, &value, &found));
    EXPECT(found == 1 && value == level && host_device_level() == level);
    value = -1;
    MUST(host_comm_get_attr(other, HOST_ATTR_DEVICE_LEVEL, &value, &found));
    EXPECT(found == 0 && value == -1);
    EXPECT(host_comm_get_attr(world, 99, &value, &found) == HOST_ERR_ARG);
    EXPECT(host_comm_get_attr(world, HOST_ATTR_DEVICE_LEVEL, NULL, &found) == HOST_ERR_ARG);
    MUST(host_comm_free(&other));

    host_device_ring_t *ring = NULL;
    EXPECT((host_device_ring_create(0, 1, &ring) == HOST_SUCCESS) == (level > 2));
    EXPECT((ring != NULL) == (level > 2));
    if (ring)
        MUST(host_device_ring_free(&ring));
    EXPECT(host_device_ring_create(0, 0, &ring) == HOST_ERR_ARG);
    EXPECT(host_device_ring_create(1, 1, &ring) == (level > 2 ? HOST_ERR_ARG : HOST_ERR_WIN));

    EXPECT(host_device_count() == 1);
    MUST(host_device_alloc(0, BYTES, &memory));
    int next = (host_rank() + 1) % host_size();
    MUST(host_win_allocate_over(world, BYTES, 1, NULL, &win));
    MUST(host_win_lock_all(win));
    allowed(level, host_put(memory, BYTES, next, 0, win));
    allowed(level, host_get(memory, BYTES, next, 0, win));
    allowed(level, host_accumulate(memory, 1, HOST_INT64, HOST_SUM, next, 0, win));
    allowed(level, host_put_typed(memory, 8, HOST_INT64 | HOST_ON_DEVICE, next, 0, win));
    MUST(host_win_unlock_all(win));
    typed(win, next, level > 1 ? memory : NULL);
    allowed(level, host_allreduce(memory, memory, 1, HOST_INT64, HOST_SUM, world));
    MUST(host_info_create(&info));
    MUST(host_info_set(info, "device_num", "0"));
    allowed(level, host_win_allocate_over(world, BYTES, 1, info, &on_device));
    EXPECT((on_device != NULL) == (level > 1));
    MUST(host_win_create_dynamic(world, NULL, &dynamic));
    allowed(level, host_win_attach(dynamic, memory, BYTES));
    if (level > 1) {
        MUST(host_win_detach(dynamic, memory));
    }
    MUST(host_win_free(&dynamic));
    if (on_device) {
        MUST(host_win_free(&on_device));
    }
    MUST(host_info_free(&info));
    MUST(host_win_free(&win));
    MUST(host_device_free(&memory));
    MUST(host_finalize());
    printf("passed\n");
    return 0;
}
