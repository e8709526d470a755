/* Makes 400 puts, gets, fetches and compare-and-swaps of one word each, eight to a flush; the caller counts
 * their instructions. */
#include "check.h"

enum { CALLS = 400, BURST = 8 };

int main(int argc, char **argv)
{
    static int64_t window[64];
    int64_t word = 7;
    MPI_Win win;
    start(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(world_size == 2, "run with 2 ranks");
    MPI_Win_create(window, sizeof(window), sizeof(window[0]), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_lock_all(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; 0 == world_rank && i < CALLS; ++i) {
        MPI_Put(&word, 1, MPI_INT64_T, 1, 3, 1, MPI_INT64_T, win);
        if (BURST - 1 == i % BURST) MPI_Win_flush(1, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(0 == world_rank || 7 == window[3], "the word is %ld", (long) window[3]);
    for (int i = 0; 0 == world_rank && i < CALLS; ++i) {
        MPI_Get(&word, 1, MPI_INT64_T, 1, 4, 1, MPI_INT64_T, win);
        if (BURST - 1 == i % BURST) MPI_Win_flush(1, win);
    }
    CHECK(0 != world_rank || 0 == word, "the word got is %ld", (long) word);
    int64_t one = 1, before = -1;
    for (int i = 0; 0 == world_rank && i < CALLS; ++i) {
        MPI_Fetch_and_op(&one, &before, MPI_INT64_T, 1, 5, MPI_SUM, win);
        if (BURST - 1 == i % BURST) MPI_Win_flush(1, win);
    }
    CHECK(0 != world_rank || CALLS - 1 == before, "the word fetched is %ld", (long) before);
    for (int64_t i = 0; 0 == world_rank && i < CALLS; ++i) {
        int64_t next = i + 1;
        MPI_Compare_and_swap(&next, &i, &before, MPI_INT64_T, 1, 6, win);
        MPI_Win_flush(1, win);
        CHECK(i == before, "the word compared is %ld, not %ld", (long) before, (long) i);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    finish("counted");
    return 0;
}
