/* The error handler of a window is called for every error of host_win_free, whether the window stays or not,
 * and for a host_waitany whose wait fails. The test needs a transport whose progress fails from a get of
 * BREAKING bytes on. */
#include "example.h"

enum { BREAKING = 13 };

static int times, told;
static host_win_t *of;

static void handle(host_win_t *win, int code, void *data) {
    (void)data;
    times++;
    told = code;
    of = win;
}

int main(void) {
    static char bytes[64];
    host_win_t *win = NULL;
    host_request_t *requests[2] = {NULL, NULL};
    size_t index = 0;
    MUST(host_init());
    MUST(host_win_allocate(sizeof bytes, 1, &win));
    MUST(host_win_set_error_handler(win, handle, NULL));
    host_win_t *was = win;

    MUST(host_win_lock_all(win));
    EXPECT(host_win_free(&win) == HOST_ERR_WIN && win == was);
    EXPECT(times == 1 && told == HOST_ERR_WIN && of == was);

    MUST(host_rget(bytes, BREAKING, 0, 0, win, &requests[1]));
    EXPECT(host_win_free(&win) == HOST_ERR_STATE && win == was);
    EXPECT(times == 2 && told == HOST_ERR_STATE && of == was);

    of = NULL;
    EXPECT(host_waitany(2, requests, &index) == HOST_ERR_TRANSPORT);
    EXPECT(times == 3 && told == HOST_ERR_TRANSPORT && of == was);
    EXPECT(index == 2 && requests[1] != NULL);

    EXPECT(host_wait(&requests[1]) == HOST_ERR_TRANSPORT && times == 4);
    EXPECT(host_win_unlock_all(win) == HOST_ERR_TRANSPORT && times == 5);
    of = NULL;
    EXPECT(host_win_free(&win) == HOST_ERR_TRANSPORT && win == NULL);
    EXPECT(times == 6 && told == HOST_ERR_TRANSPORT && of == was);
    EXPECT(host_win_flush(0, was) == HOST_ERR_ARG && times == 6);
    printf("passed\n");
    fflush(stdout);
    /* Outstanding operations never end, so the process cannot leave the job. */
    _Exit(0);
}
