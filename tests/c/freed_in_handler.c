/* The wait for a request fails while its operation is outstanding, and the error handler frees the window.
 * The test needs a transport whose progress fails from a get of BREAKING bytes on. */
#include "example.h"

enum { BREAKING = 13 };

static int freed;

static void handle(host_win_t *win, int code, void *data) {
    (void)data;
    EXPECT(code == HOST_ERR_TRANSPORT);
    EXPECT(host_win_unlock_all(win) == HOST_ERR_TRANSPORT);
    EXPECT(host_win_free(&win) < 0 && win == NULL);
    freed = 1;
    /* The window's freed memory is allocated again, so every use of the window is
     * detected. */
    for (size_t bytes = 16; bytes <= 8192; bytes += 16) {
        void *other = malloc(bytes);
        EXPECT(other != NULL);
        memset(other, 0xff, bytes);
    }
}

int main(void) {
    static char bytes[64];
    host_win_t *win = NULL;
    host_request_t *request = NULL;
    MUST(host_init());
    MUST(host_win_allocate(sizeof bytes, 1, &win));
    MUST(host_win_set_error_handler(win, handle, NULL));
    MUST(host_win_lock_all(win));
    MUST(host_rget(bytes, BREAKING, 0, 0, win, &request));
    EXPECT(host_wait(&request) == HOST_ERR_TRANSPORT);
    EXPECT(request == NULL && freed);
    printf("passed\n");
    fflush(stdout);
    /* Outstanding operations never end, so the process cannot leave the job. */
    _Exit(0);
}
