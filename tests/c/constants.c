/* Large puts, accumulates and collectives from read-only memory. */
#include <sys/mman.h>

#include "example.h"

enum { ITEMS = 1 << 15 };

int main(void) {
    int64_t *given = mmap(NULL, ITEMS * sizeof *given, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int64_t *back = malloc(ITEMS * sizeof *back);
    host_win_t *win = NULL;
    host_comm_t *world = NULL;
    host_request_t *request = NULL;
    EXPECT(given != MAP_FAILED && back != NULL);
    MUST(host_init());
    MUST(host_comm_world(&world));
    int rank = host_rank(), next = (rank + 1) % host_size();
    for (int64_t item = 0; item < ITEMS; item++) {
        given[item] = 3 * item;
    }
    EXPECT(mprotect(given, ITEMS * sizeof *given, PROT_READ) == 0);

    MUST(host_win_allocate(ITEMS * sizeof *given, sizeof *given, &win));
    MUST(host_win_lock_all(win));
    MUST(host_put(given, ITEMS * sizeof *given, next, 0, win));
    MUST(host_win_flush(next, win));
    MUST(host_rput(given, ITEMS * sizeof *given, next, 0, win, &request));
    MUST(host_wait(&request));
    MUST(host_accumulate(given, ITEMS, HOST_INT64, HOST_SUM, next, 0, win));
    MUST(host_win_flush(next, win));
    /* Writable memory works as before. */
    MUST(host_get(back, ITEMS * sizeof *back, next, 0, win));
    MUST(host_win_flush(next, win));
    for (int64_t item = 0; item < ITEMS; item++) {
        EXPECT(back[item] == 6 * item);
    }
    /* A get into read-only memory is refused. */
    EXPECT(host_get(given, ITEMS * sizeof *given, next, 0, win) == HOST_ERR_TRANSPORT);
    MUST(host_win_unlock_all(win));

    MUST(host_allreduce(given, back, ITEMS, HOST_INT64, HOST_SUM, world));
    for (int64_t item = 0; item < ITEMS; item++) {
        EXPECT(back[item] == 3 * item * host_size());
    }
    MUST(host_win_free(&win));
    MUST(host_finalize());
    printf("passed\n");
    return 0;
}
