/* Calls of windows with HOST_PROC_NULL as the target. */
#include "example.h"

static host_comm_t *world;

/* Each call to HOST_PROC_NULL succeeds without effect, inside and outside of epochs; its request is
 * complete. */
static void to_no_rank(host_win_t *win) {
    const int none = HOST_PROC_NULL;
    int64_t one = 1, found = 9;
    host_layout_t row = {.magic = HOST_LAYOUT_MAGIC, .size = sizeof row, .count = 1, .length = 1};
    row.datatype = HOST_INT64;
    MUST(host_put(&one, sizeof one, none, 1000, win));
    MUST(host_put_notify(&one, sizeof one, none, 1000, 0, win));
    MUST(host_get(&found, sizeof found, none, 1000, win));
    MUST(host_put_typed(&one, 1, HOST_INT64, none, 1000, win));
    MUST(host_get_typed(&found, 1, HOST_INT64, none, 1000, win));
    MUST(host_put_layout(&one, &row, none, 1000, &row, win));
    MUST(host_get_layout(&found, &row, none, 1000, &row, win));
    MUST(host_accumulate_layout(&one, &row, HOST_SUM, none, 1000, &row, win));
    MUST(host_accumulate(&one, 1, HOST_INT64, HOST_SUM, none, 1000, win));
    MUST(host_get_accumulate(&one, &found, 1, HOST_INT64, HOST_SUM, none, 1000, win));
    MUST(host_fetch_and_op(&one, &found, HOST_INT64, HOST_SUM, none, 1000, win));
    MUST(host_compare_and_swap(&one, &one, &found, HOST_INT64, none, 1000, win));
    EXPECT(host_put(&one, sizeof one, none, 0, NULL) == HOST_ERR_ARG);

    host_request_t *all[6] = {NULL};
    size_t index = 6;
    int done = 0;
    MUST(host_rput(&one, sizeof one, none, 1000, win, &all[0]));
    MUST(host_rget(&found, sizeof found, none, 1000, win, &all[1]));
    MUST(host_rput_typed(&one, 1, HOST_INT64, none, 1000, win, &all[2]));
    MUST(host_rget_typed(&found, 1, HOST_INT64, none, 1000, win, &all[3]));
    MUST(host_raccumulate(&one, 1, HOST_INT64, HOST_SUM, none, 1000, win, &all[4]));
    MUST(host_rget_accumulate(&one, &found, 1, HOST_INT64, HOST_SUM, none, 1000, win, &all[5]));
    MUST(host_test(&all[0], &done));
    EXPECT(done == 1 && all[0] == NULL);
    MUST(host_waitany(6, all, &index));
    EXPECT(index == 1 && all[1] == NULL && all[2] != NULL);
    MUST(host_waitall(6, all));
    EXPECT(all[5] == NULL && found == 9);
}

/* With each table, a call to HOST_PROC_NULL calls none of the table's functions. */
static void windows(void) {
    const char *tables[] = {"shm", "btl"};
    for (int i = 0; i < 2; i++) {
        host_info_t *info = NULL;
        host_win_t *win = NULL;
        MUST(host_info_create(&info));
        MUST(host_info_set(info, "host_win_table", tables[i]));
        MUST(host_win_allocate_over(world, 64, 8, info, &win));
        MUST(host_info_free(&info));
        to_no_rank(win);
        MUST(host_win_free(&win));
    }
}

int main(void) {
    MUST(host_init());
    MUST(host_comm_world(&world));
    windows();
    MUST(host_finalize());
    printf("passed\n");
    return 0;
}
