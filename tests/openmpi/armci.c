/* ARMCI over MPI windows: put, get, strided, accumulate, read-modify-write and mutexes. The build command
 * is `mpicc armci.c -larmci-openmpi`. With ARMCI_USE_WIN_ALLOCATE=0, its windows use its own memory, so
 * that every operation on one node also goes through the transport. */
#include "check.h"
#include <armci.h>

enum { N = 4096 };

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(0 == ARMCI_Init(), "ARMCI_Init");
    void **base = calloc((size_t) world_size, sizeof(*base));
    CHECK(base && 0 == ARMCI_Malloc(base, (N + 8) * sizeof(double)), "ARMCI_Malloc");
    double *out = ARMCI_Malloc_local(N * sizeof(double)), *in = ARMCI_Malloc_local(N * sizeof(double));
    double *theirs = base[next];

    for (int i = 0; i < N; ++i) {
        out[i] = i + 10000.0 * world_rank;
    }
    CHECK(0 == ARMCI_Put(out, theirs, N * sizeof(double), next), "put");
    ARMCI_Fence(next);
    CHECK(0 == ARMCI_Get(theirs, in, N * sizeof(double), next), "get");
    for (int i = 0; i < N; ++i) {
        CHECK(in[i] == out[i], "element %d is %f", i, in[i]);
    }
    ARMCI_Barrier();

    double scale = 2.0;
    if (0 == world_rank) { /* every rank adds twice its pattern to rank 0 */
        ARMCI_Access_begin(base[0]);
        memset(base[0], 0, N * sizeof(double));
        ARMCI_Access_end(base[0]);
    }
    ARMCI_Barrier();
    for (int i = 0; i < N; ++i) {
        out[i] = i;
    }
    CHECK(0 == ARMCI_Acc(ARMCI_ACC_DBL, &scale, out, base[0], N * sizeof(double), 0), "accumulate");
    ARMCI_Barrier();
    CHECK(0 == ARMCI_Get(base[0], in, N * sizeof(double), 0), "get");
    for (int i = 0; i < N; ++i) {
        CHECK(in[i] == 2.0 * i * world_size, "element %d is %f", i, in[i]);
    }
    ARMCI_Barrier();

    int counts[2] = {64, 16}, wide = 512, narrow = 64; /* strided: 16 rows of 64 bytes out of rows of 512 */
    for (int i = 0; i < 128; ++i) {
        out[i] = -i - world_rank;
    }
    CHECK(0 == ARMCI_PutS(out, &narrow, theirs, &wide, counts, 1, next), "strided put");
    ARMCI_Fence(next);
    memset(in, 0, 1024);
    CHECK(0 == ARMCI_GetS(theirs, &wide, in, &narrow, counts, 1, next), "strided get");
    for (int i = 0; i < 128; ++i) {
        CHECK(in[i] == out[i], "strided element %d is %f", i, in[i]);
    }
    ARMCI_Barrier();

    long *counter = (long *) ((double *) base[0] + N), old = -1, last = -1;
    if (0 == world_rank) {
        ARMCI_Access_begin(base[0]);
        memset((double *) base[0] + N, 0, 8 * sizeof(double));
        ARMCI_Access_end(base[0]);
    }
    ARMCI_Barrier();
    for (int i = 0; i < 100; ++i) {
        CHECK(0 == ARMCI_Rmw(ARMCI_FETCH_AND_ADD_LONG, &old, counter, 1, 0), "read-modify-write");
        CHECK(old > last, "the counter went from %ld to %ld", last, old);
        last = old;
    }
    ARMCI_Barrier();
    CHECK(0 == ARMCI_Rmw(ARMCI_FETCH_AND_ADD_LONG, &old, counter, 0, 0), "read-modify-write");
    CHECK(old == 100L * world_size, "the counter ends at %ld", old);
    ARMCI_Barrier();

    /* A get and a put under the mutex make an increment. */
    double *shared = (double *) base[0] + N + 4, value;
    CHECK(0 == ARMCI_Create_mutexes(1), "mutexes");
    for (int i = 0; i < 25; ++i) {
        ARMCI_Lock(0, 0);
        ARMCI_Get(shared, &value, sizeof(value), 0);
        value += 1.0;
        ARMCI_Put(&value, shared, sizeof(value), 0);
        ARMCI_Fence(0);
        ARMCI_Unlock(0, 0);
    }
    ARMCI_Barrier();
    ARMCI_Get(shared, &value, sizeof(value), 0);
    CHECK(value == 25.0 * world_size, "the sum under the mutex is %f", value);
    ARMCI_Barrier();
    ARMCI_Destroy_mutexes();

    ARMCI_Free_local(out);
    ARMCI_Free_local(in);
    ARMCI_Free(base[world_rank]);
    free(base);
    ARMCI_Finalize();
    finish("armci");
    return 0;
}
