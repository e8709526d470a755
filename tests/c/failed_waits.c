/* Each error of host_win_free, whether the window stays or not, and waits that fail while their operation is under way. Over a
 * transport whose progress fails from a get of BREAKING bytes on. */
#include "example.h"

enum { BREAKING = 13 };

int main(void) {
    static char bytes[64];
    host_win_t *win = NULL;
    host_request_t *requests[2] = {NULL, NULL};
    size_t index = 0;
    MUST(host_init());
    MUST(host_win_allocate(sizeof bytes, 1, &win));
    host_win_t *was = win;

    MUST(host_win_lock_all(win));
    EXPECT(host_win_free(&win) == HOST_ERR_WIN && win == was);

    MUST(host_rget(bytes, BREAKING, 0, 0, win, &requests[1]));
    EXPECT(host_win_free(&win) == HOST_ERR_STATE && win == was);

    EXPECT(host_waitany(2, requests, &index) == HOST_ERR_TRANSPORT);
    EXPECT(index == 2 && requests[1] != NULL);

    EXPECT(host_wait(&requests[1]) == HOST_ERR_TRANSPORT && requests[1] == NULL);
    EXPECT(host_win_unlock_all(win) == HOST_ERR_TRANSPORT);
    EXPECT(host_win_free(&win) == HOST_ERR_TRANSPORT && win == NULL);
    EXPECT(host_win_flush(0, was) == HOST_ERR_ARG);
    printf("passed\n");
    fflush(stdout);
    /* Nothing that is under way ends any more, so there is no leaving in good order. */
    _Exit(0);
}
