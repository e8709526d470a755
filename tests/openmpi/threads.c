/* Several threads of each rank use one window at the same time: puts to separate places, and one shared
 * counter. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 300, BYTES = 4096 };

static MPI_Win win;

static void *work(void *arg)
{
    int number = (int) (intptr_t) arg;
    unsigned char out[BYTES], in[BYTES];
    int64_t one = 1, old;
    for (int round = 0; round < ROUNDS; ++round) {
        int size = round % 3 ? 8 : BYTES;
        memset(out, number * 50 + round, sizeof(out));
        memset(in, 0, sizeof(in));
        MPI_Put(out, size, MPI_BYTE, next, 64 + number * BYTES, size, MPI_BYTE, win);
        MPI_Win_flush(next, win);
        MPI_Get(in, size, MPI_BYTE, next, 64 + number * BYTES, size, MPI_BYTE, win);
        MPI_Win_flush(next, win);
        CHECK(0 == memcmp(in, out, (size_t) size), "thread %d, round %d: byte 0 is %d", number, round, in[0]);
        MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, 0, MPI_SUM, win);
        MPI_Win_flush(0, win);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    start(&argc, &argv, MPI_THREAD_MULTIPLE);
    char *memory = calloc(1, 64 + THREADS * BYTES);
    win = window(memory, 64 + THREADS * BYTES);
    MPI_Win_lock_all(0, win);
    for (intptr_t i = 0; i < THREADS; ++i) {
        CHECK(0 == pthread_create(&threads[i], NULL, work, (void *) i), "no thread");
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(threads[i], NULL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    int64_t end = 0, want = (int64_t) world_size * THREADS * ROUNDS;
    MPI_Fetch_and_op(NULL, &end, MPI_INT64_T, 0, 0, MPI_NO_OP, win);
    MPI_Win_unlock_all(win);
    CHECK(end == want, "the counter ends at %ld, not %ld", (long) end, (long) want);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&win);
    free(memory);
    finish("threads");
    return 0;
}
