/* Each rank puts a word to the next one.
 *
 *   cc hello.c $(pkg-config --cflags --libs host-stub) -o hello
 *   host-stub launch -n 2 --provider shm -- ./hello
 */
#include "example.h"

int main(void) {
    host_win_t *win = NULL;
    MUST(host_init());
    int rank = host_rank(), size = host_size();
    MUST(host_win_allocate(sizeof(int64_t), sizeof(int64_t), &win));

    int64_t word = 100 + rank;
    MUST(host_win_fence(win));
    MUST(host_put(&word, sizeof word, (rank + 1) % size, 0, win));
    MUST(host_win_fence_end(win));

    const int64_t *found = host_win_base(win);
    EXPECT(*found == 100 + (rank + size - 1) % size);
    printf("rank %d has %d\n", rank, (int)*found);
    MUST(host_win_free(&win));
    MUST(host_finalize());
    printf("passed\n");
    return 0;
}
