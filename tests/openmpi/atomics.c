/* Every predefined operation on every type that the hardware or the provider may support: as accumulate, as
 * fetch-and-op, and as get-accumulate of several elements. The results are compared with the same operation
 * computed here. The windows come with and without the promise of single elements (info
 * acc_single_intrinsic). This promise decides whether osc/rdma calls the component's atomics, or uses locks
 * with get and put. */
#include "check.h"

#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define MIN(a, b) ((a) < (b) ? (a) : (b))

static MPI_Win create(void *base, size_t size, int single)
{
    MPI_Info info;
    MPI_Win win;
    MPI_Info_create(&info);
    MPI_Info_set(info, "acc_single_intrinsic", single ? "true" : "false");
    MPI_Win_create(base, (MPI_Aint) size, 1, info, MPI_COMM_WORLD, &win);
    MPI_Info_free(&info);
    return win;
}

/* One operation of one type: rank 0 sets the target's cell, applies the operation, and reads the cell again. */
#define ONE(T, FORMAT, mpi_type, op, before, operand, after)                                             \
    do {                                                                                                 \
        T cell = (T) (before), arg = (T) (operand), old = (T) 0, now = (T) 0, want = (T) (after);        \
        MPI_Accumulate(&cell, 1, mpi_type, target, 8, 1, mpi_type, MPI_REPLACE, win);                    \
        MPI_Win_flush(target, win);                                                                      \
        MPI_Accumulate(&arg, 1, mpi_type, target, 8, 1, mpi_type, op, win);                              \
        MPI_Win_flush(target, win);                                                                      \
        MPI_Fetch_and_op(NULL, &now, mpi_type, target, 8, MPI_NO_OP, win);                               \
        MPI_Win_flush(target, win);                                                                      \
        CHECK(now == want, "accumulate " #op " of " #mpi_type ": " FORMAT " became " FORMAT, cell, now); \
        MPI_Accumulate(&cell, 1, mpi_type, target, 8, 1, mpi_type, MPI_REPLACE, win);                    \
        MPI_Win_flush(target, win);                                                                      \
        MPI_Fetch_and_op(&arg, &old, mpi_type, target, 8, op, win);                                      \
        MPI_Win_flush(target, win);                                                                      \
        CHECK(old == cell, "fetch " #op " of " #mpi_type " returned " FORMAT, old);                      \
        MPI_Get(&now, 1, mpi_type, target, 8, 1, mpi_type, win);                                         \
        MPI_Win_flush(target, win);                                                                      \
        CHECK(now == want, "fetch " #op " of " #mpi_type ": " FORMAT " became " FORMAT, cell, now);      \
    } while (0)

#define ORDERED(T, F, mpi_type, a, b)                          \
    ONE(T, F, mpi_type, MPI_SUM, a, b, (T) ((a) + (b)));       \
    ONE(T, F, mpi_type, MPI_MIN, a, b, MIN((T) (a), (T) (b))); \
    ONE(T, F, mpi_type, MPI_MAX, a, b, MAX((T) (a), (T) (b))); \
    ONE(T, F, mpi_type, MPI_REPLACE, a, b, b)

#define WHOLE(T, F, mpi_type, a, b)                        \
    ORDERED(T, F, mpi_type, a, b);                         \
    ONE(T, F, mpi_type, MPI_BAND, a, b, (T) ((a) & (b)));  \
    ONE(T, F, mpi_type, MPI_BOR, a, b, (T) ((a) | (b)));   \
    ONE(T, F, mpi_type, MPI_BXOR, a, b, (T) ((a) ^ (b)));  \
    ONE(T, F, mpi_type, MPI_LAND, a, b, (a) && (b));       \
    ONE(T, F, mpi_type, MPI_LAND, a, 0, 0);                \
    ONE(T, F, mpi_type, MPI_LOR, 0, b, (b) != 0);          \
    ONE(T, F, mpi_type, MPI_LOR, 0, 0, 0);                 \
    ONE(T, F, mpi_type, MPI_LXOR, a, b, !(a) != !(b));     \
    ONE(T, F, mpi_type, MPI_LXOR, a, 0, (a) != 0)

static void every_operation(MPI_Win win, int target)
{
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
    WHOLE(int64_t, "%ld", MPI_INT64_T, -5, 3);
    WHOLE(int64_t, "%ld", MPI_INT64_T, INT64_C(0x7000000000000001), INT64_C(-0x7000000000000000));
    WHOLE(uint64_t, "%lu", MPI_UINT64_T, 6, 12);
    WHOLE(uint64_t, "%lu", MPI_UINT64_T, UINT64_C(0x8000000000000000), 1);
    WHOLE(uint32_t, "%u", MPI_UINT32_T, 0x80000000u, 1);
    WHOLE(int32_t, "%d", MPI_INT32_T, -5, 3);
    WHOLE(int32_t, "%d", MPI_INT32_T, 0x70000001, -0x70000000);
    WHOLE(uint32_t, "%u", MPI_UINT32_T, 6, 0x70000000);
    WHOLE(int16_t, "%d", MPI_INT16_T, -5, 3);
    WHOLE(signed char, "%d", MPI_SIGNED_CHAR, -5, 3);
    ORDERED(float, "%f", MPI_FLOAT, 1.5f, -2.25f);
    ORDERED(double, "%f", MPI_DOUBLE, 1.5, -2.25);
    ONE(double, "%f", MPI_DOUBLE, MPI_PROD, 1.5, -2.25, 1.5 * -2.25);
    MPI_Win_unlock(target, win);
}

static void compare_and_swap(MPI_Win win, int target)
{
    int64_t cell = 41, compare = 41, value = 43, old = 0;
    int32_t cell32 = -7, compare32 = -7, value32 = 9, old32 = 0;
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
    MPI_Accumulate(&cell, 1, MPI_INT64_T, target, 8, 1, MPI_INT64_T, MPI_REPLACE, win);
    MPI_Win_flush(target, win);
    MPI_Compare_and_swap(&value, &compare, &old, MPI_INT64_T, target, 8, win);
    MPI_Win_flush(target, win);
    CHECK(old == 41, "returned %ld", (long) old);
    MPI_Compare_and_swap(&cell, &compare, &old, MPI_INT64_T, target, 8, win); /* the value is 43 now, so the swap must fail */
    MPI_Win_flush(target, win);
    CHECK(old == 43, "returned %ld", (long) old);
    MPI_Fetch_and_op(NULL, &old, MPI_INT64_T, target, 8, MPI_NO_OP, win);
    MPI_Win_flush(target, win);
    CHECK(old == 43, "a failed compare changed the cell to %ld", (long) old);
    MPI_Accumulate(&cell32, 1, MPI_INT32_T, target, 12, 1, MPI_INT32_T, MPI_REPLACE, win);
    MPI_Win_flush(target, win);
    MPI_Compare_and_swap(&value32, &compare32, &old32, MPI_INT32_T, target, 12, win);
    MPI_Win_flush(target, win);
    CHECK(old32 == -7, "returned %d", old32);
    MPI_Fetch_and_op(NULL, &old32, MPI_INT32_T, target, 12, MPI_NO_OP, win);
    MPI_Win_unlock(target, win);
    CHECK(old32 == 9, "left %d", old32);
}

static void many_elements(MPI_Win win, int target)
{
    enum { N = 1000 };
    static int64_t ones[N], got[N];
    static double reals[N], fetched[N];
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
    for (int i = 0; i < N; ++i) {
        ones[i] = i;
        reals[i] = i * 0.5;
    }
    MPI_Put(ones, N, MPI_INT64_T, target, 64, N, MPI_INT64_T, win);
    MPI_Win_flush(target, win);
    MPI_Get_accumulate(ones, N, MPI_INT64_T, got, N, MPI_INT64_T, target, 64, N, MPI_INT64_T, MPI_SUM, win);
    MPI_Win_flush(target, win);
    for (int i = 0; i < N; ++i) {
        CHECK(got[i] == i, "element %d was %ld", i, (long) got[i]);
    }
    MPI_Get(got, N, MPI_INT64_T, target, 64, N, MPI_INT64_T, win);
    MPI_Put(reals, N, MPI_DOUBLE, target, 64 + sizeof(ones), N, MPI_DOUBLE, win);
    MPI_Win_flush(target, win);
    MPI_Accumulate(reals, N, MPI_DOUBLE, target, 64 + sizeof(ones), N, MPI_DOUBLE, MPI_SUM, win);
    MPI_Win_flush(target, win);
    MPI_Get(fetched, N, MPI_DOUBLE, target, 64 + sizeof(ones), N, MPI_DOUBLE, win);
    MPI_Win_unlock(target, win);
    for (int i = 0; i < N; ++i) {
        CHECK(got[i] == 2 * i, "element %d became %ld", i, (long) got[i]);
        CHECK(fetched[i] == (double) i, "element %d became %f", i, fetched[i]);
    }
}

/* All ranks access one cell at the same time: no update may be lost, and the fetched values must be a
 * permutation. */
static void contended(MPI_Win win, int64_t *cells, int root)
{
    enum { ROUNDS = 200 };
    int64_t one = 1, old, last = -1, sum = 0, total = 0;
    if (world_rank == root) {
        memset(cells, 0, 64);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < ROUNDS; ++i) {
        MPI_Fetch_and_op(&one, &old, MPI_INT64_T, root, 16, MPI_SUM, win);
        MPI_Win_flush(root, win);
        CHECK(old > last, "the counter went from %ld to %ld", (long) last, (long) old);
        last = old;
        sum += old;
    }
    int64_t mine = 0, seen;
    for (int done = 0; done < 20;) { /* the usual compare-and-swap loop */
        int64_t next = mine + 1;
        MPI_Compare_and_swap(&next, &mine, &seen, MPI_INT64_T, root, 24, win);
        MPI_Win_flush(root, win);
        done += seen == mine;
        mine = seen == mine ? next : seen;
    }
    MPI_Win_unlock_all(win);
    MPI_Allreduce(&sum, &total, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    int64_t n = (int64_t) ROUNDS * world_size;
    CHECK(total == n * (n - 1) / 2, "fetched values sum to %ld, not %ld", (long) total, (long) (n * (n - 1) / 2));
    int64_t end[2];
    MPI_Win_lock(MPI_LOCK_SHARED, root, 0, win);
    MPI_Get(end, 2, MPI_INT64_T, root, 16, 2, MPI_INT64_T, win);
    MPI_Win_unlock(root, win);
    CHECK(end[0] == n, "the counter ends at %ld, not %ld", (long) end[0], (long) n);
    CHECK(end[1] == 20 * world_size, "compare-and-swap ends at %ld", (long) end[1]);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    enum { BYTES = 64 + 16000 };
    start(&argc, &argv, MPI_THREAD_SINGLE);
    int64_t *cells = calloc(1, BYTES);
    CHECK(cells, "no memory");
    for (int single = 0; single < 2; ++single) {
        MPI_Win win = create(cells, BYTES, single);
        for (int origin = 0; origin < world_size; ++origin) {
            if (origin == world_rank) {
                every_operation(win, (world_rank + 1) % world_size);
                every_operation(win, world_rank);
                compare_and_swap(win, (world_rank + 1) % world_size);
                if (!single) {
                    many_elements(win, (world_rank + 1) % world_size);
                }
            }
            MPI_Barrier(MPI_COMM_WORLD);
        }
        contended(win, cells, 0);
        contended(win, cells, world_size - 1);
        MPI_Win_free(&win);
    }
    free(cells);
    finish("atomics");
    return 0;
}
