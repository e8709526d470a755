/* Every call of a window over the component osc: transfers with types on both sides, each kind of accumulate,
 * requests, each kind of epoch, memory attached later, errors. The program tests all flavours that the
 * component supports, each with every rank as target. */
#include "check.h"

#include <complex.h>

enum { WORDS = 512 };

static MPI_Win win;
static double *base;

static void fill(void)
{
    MPI_Win_fence(0, win);
    for (int i = 0; i < WORDS; ++i) base[i] = world_rank * 1000 + i;
    MPI_Win_fence(0, win);
}

static void zero(void)
{
    MPI_Win_fence(0, win);
    memset(base, 0, WORDS * sizeof *base);
    MPI_Win_fence(0, win);
}

static void transfers(void)
{
    fill();
    double out[20], in[20] = {0}, own = 0;
    for (int i = 0; i < 20; ++i) out[i] = 7000 + 100 * world_rank + i;
    MPI_Put(out, 1, MPI_DOUBLE, next, 3, 1, MPI_DOUBLE, win);
    MPI_Get(in, 2, MPI_DOUBLE, next, 7, 2, MPI_DOUBLE, win);
    MPI_Get(&own, 1, MPI_DOUBLE, world_rank, 9, 1, MPI_DOUBLE, win);
    MPI_Put(out, 1, MPI_DOUBLE, MPI_PROC_NULL, 0, 1, MPI_DOUBLE, win);
    MPI_Put(NULL, 0, MPI_DOUBLE, next, 0, 0, MPI_DOUBLE, win);
    /* A displacement beyond the window is no error without elements. */
    MPI_Put(NULL, 0, MPI_DOUBLE, next, WORDS + 1, 0, MPI_DOUBLE, win);
    MPI_Accumulate(NULL, 0, MPI_DOUBLE, next, WORDS + 1, 0, MPI_DOUBLE, MPI_SUM, win);
    MPI_Get_accumulate(NULL, 0, MPI_DOUBLE, NULL, 0, MPI_DOUBLE, next, WORDS + 1, 0, MPI_DOUBLE, MPI_SUM, win);
    MPI_Win_fence(0, win);
    CHECK(in[0] == next * 1000 + 7 && in[1] == next * 1000 + 8 && own == world_rank * 1000 + 9, "%g %g %g", in[0], in[1], own);
    CHECK(base[3] == 7000 + 100 * last, "%g", base[3]);

    MPI_Datatype vector, backwards;
    MPI_Type_vector(10, 2, 5, MPI_DOUBLE, &vector);
    MPI_Type_commit(&vector);
    /* These elements lie before the address that a call names. */
    int lengths[2] = {1, 2}, places[2] = {-4, 1};
    MPI_Type_indexed(2, lengths, places, MPI_DOUBLE, &backwards);
    MPI_Type_commit(&backwards);
    fill();
    MPI_Put(out, 20, MPI_DOUBLE, next, 100, 1, vector, win);
    MPI_Put(out + 10, 1, backwards, next, 210, 1, backwards, win);
    MPI_Get(in, 20, MPI_DOUBLE, next, 300, 1, vector, win);
    MPI_Win_fence(0, win);
    double first = 7000 + 100 * last;
    CHECK(base[100] == first && base[101] == first + 1 && base[102] == world_rank * 1000 + 102 && base[105] == first + 2 &&
              base[146] == first + 19,
          "%g %g %g %g", base[100], base[101], base[102], base[105]);
    CHECK(base[206] == first + 6 && base[210] == world_rank * 1000 + 210 && base[211] == first + 11 && base[212] == first + 12,
          "%g %g %g", base[206], base[211], base[212]);
    CHECK(in[2] == next * 1000 + 305 && in[19] == next * 1000 + 346, "%g %g", in[2], in[19]);
    MPI_Type_free(&vector);
    MPI_Type_free(&backwards);
}

/* Types of equal extents and sizes, each freed before the next is made; Open MPI usually makes the next one
 * at the same address. */
static void types_at_one_place(void)
{
    enum { BLOCKS = 6, TIMES = 40 };
    double out[BLOCKS], in[BLOCKS];
    for (int i = 0; i < BLOCKS; ++i) out[i] = 5000 + i;
    for (int turn = 0; turn < TIMES; ++turn) {
        int places[BLOCKS], lengths[BLOCKS];
        for (int i = 0; i < BLOCKS; ++i) {
            places[i] = 8 * i + (i > 0 && i < BLOCKS - 1 ? (turn * (i + 2) + i) % 7 : 0);
            lengths[i] = 1;
        }
        MPI_Datatype type;
        MPI_Type_indexed(BLOCKS, lengths, places, MPI_DOUBLE, &type);
        MPI_Type_commit(&type);
        zero();
        MPI_Put(out, BLOCKS, MPI_DOUBLE, next, 0, 1, type, win);
        MPI_Win_fence(0, win);
        for (int i = 0; i < BLOCKS; ++i) CHECK(base[places[i]] == out[i], "turn %d, block %d: %g", turn, i, base[places[i]]);
        MPI_Win_fence(0, win);
        MPI_Accumulate(out, BLOCKS, MPI_DOUBLE, next, 0, 1, type, MPI_SUM, win);
        MPI_Win_fence(0, win);
        MPI_Get(in, BLOCKS, MPI_DOUBLE, next, 0, 1, type, win);
        MPI_Win_fence(0, win);
        for (int i = 0; i < BLOCKS; ++i) CHECK(in[i] == 2 * out[i], "turn %d, block %d: %g", turn, i, in[i]);
        MPI_Type_free(&type);
    }
}

static void accumulates(void)
{
    enum { TIMES = 100 };
    zero();
    int to = world_size - 1;
    MPI_Datatype vector;
    MPI_Type_vector(10, 2, 5, MPI_DOUBLE, &vector);
    MPI_Type_commit(&vector);
    double ones[20];
    for (int i = 0; i < 20; ++i) ones[i] = 1;
    for (int i = 0; i < TIMES; ++i) MPI_Accumulate(ones, 20, MPI_DOUBLE, to, 0, 1, vector, MPI_SUM, win);
    MPI_Win_fence(0, win);
    if (world_rank == to) {
        CHECK(base[0] == TIMES * world_size && base[46] == TIMES * world_size && base[2] == 0, "%g %g %g", base[0], base[46], base[2]);
    }
    /* Pairs have gaps: their values are 12 bytes of 16. */
    struct { double value; int place; } pair = {10.0 - world_rank, world_rank}, *pairs = (void *) (base + 200), old = {0, 0};
    MPI_Win_fence(0, win);
    if (world_rank == to) {
        pairs[0].value = pairs[1].value = 100;
        pairs[0].place = pairs[1].place = -1;
    }
    /* These pairs have a gap inside, which does not change. */
    struct { short value, gap; int place; } few[4], *fews = (void *) (base + 210);
    for (int i = 0; i < 4; ++i) {
        few[i].value = (short) (world_rank + i);
        few[i].gap = -1;
        few[i].place = world_rank;
        fews[i].value = -1;
        fews[i].gap = (short) (100 + i);
        fews[i].place = -1;
    }
    MPI_Win_fence(0, win);
    MPI_Accumulate(&pair, 1, MPI_DOUBLE_INT, to, 200, 1, MPI_DOUBLE_INT, MPI_MINLOC, win);
    MPI_Get_accumulate(&pair, 1, MPI_DOUBLE_INT, &old, 1, MPI_DOUBLE_INT, to, 202, 1, MPI_DOUBLE_INT, MPI_MINLOC, win);
    MPI_Win_fence(0, win);
    if (world_rank == to) {
        CHECK(pairs[0].value == 10.0 - to && pairs[0].place == to, "%g %d", pairs[0].value, pairs[0].place);
        CHECK(pairs[1].value == 10.0 - to && pairs[1].place == to, "%g %d", pairs[1].value, pairs[1].place);
    }
    CHECK((old.value == 100 && old.place == -1) || old.value == 10.0 - old.place, "%g %d", old.value, old.place);
    MPI_Accumulate(few, 4, MPI_SHORT_INT, to, 210, 4, MPI_SHORT_INT, MPI_MAXLOC, win);
    double complex z = 1 + 2 * I, *zs = (void *) (base + 220);
    for (int i = 0; i < TIMES; ++i) MPI_Accumulate(&z, 1, MPI_C_DOUBLE_COMPLEX, to, 220, 1, MPI_C_DOUBLE_COMPLEX, MPI_SUM, win);
    long double wide = 1, *wides = (void *) (base + 224);
    MPI_Accumulate(&wide, 1, MPI_LONG_DOUBLE, to, 224, 1, MPI_LONG_DOUBLE, MPI_SUM, win);
    MPI_Win_fence(0, win);
    if (world_rank == to) {
        for (int i = 0; i < 4; ++i) {
            CHECK(fews[i].value == to + i && fews[i].place == to, "pair %d: %d %d", i, fews[i].value, fews[i].place);
            CHECK(fews[i].gap == 100 + i, "the gap of pair %d: %d", i, fews[i].gap);
        }
        CHECK(*zs == TIMES * world_size * z, "%g %g", creal(*zs), cimag(*zs));
        CHECK(*wides == world_size, "%Lg", *wides);
    }
    /* Each operation on a number, and the operations that keep the target's value. */
    struct { MPI_Op op; int64_t from, by, result; } table[] = {
        {MPI_SUM, 5, 3, 8},   {MPI_PROD, 5, 3, 15}, {MPI_MIN, 5, 3, 3},   {MPI_MAX, 5, 3, 5},    {MPI_LAND, 5, 3, 1},
        {MPI_LOR, 0, 3, 1},   {MPI_LXOR, 5, 3, 0},  {MPI_BAND, 5, 3, 1},  {MPI_BOR, 5, 3, 7},    {MPI_BXOR, 5, 3, 6},
        {MPI_REPLACE, 5, 3, 3}, {MPI_NO_OP, 5, 3, 5},
    };
    int count = sizeof table / sizeof *table;
    int64_t *words = (void *) (base + 230);
    MPI_Win_fence(0, win);
    for (int i = 0; i < count; ++i) words[i] = table[i].from;
    MPI_Win_fence(0, win);
    int64_t found[16];
    for (int i = 0; i < count; ++i) {
        MPI_Get_accumulate(&table[i].by, 1, MPI_INT64_T, found + i, 1, MPI_INT64_T, next, 230 + i, 1, MPI_INT64_T, table[i].op, win);
    }
    MPI_Win_fence(0, win);
    for (int i = 0; i < count; ++i) {
        CHECK(found[i] == table[i].from, "operation %d fetched %ld", i, (long) found[i]);
        CHECK(words[i] == table[i].result, "operation %d made %ld", i, (long) words[i]);
    }
    /* The distance of these elements is not a multiple of their size. */
    MPI_Datatype odd;
    int lengths[2] = {1, 1};
    MPI_Aint places[2] = {0, 13};
    MPI_Type_create_hindexed(2, lengths, places, MPI_INT64_T, &odd);
    MPI_Type_commit(&odd);
    int64_t two[2] = {1, 1}, got[2];
    for (int i = 0; i < TIMES; ++i) MPI_Accumulate(two, 2, MPI_INT64_T, to, 260, 1, odd, MPI_SUM, win);
    MPI_Win_fence(0, win);
    if (world_rank == to) {
        memcpy(got, base + 260, 8);
        memcpy(got + 1, (char *) (base + 260) + 13, 8);
        CHECK(got[0] == TIMES * world_size && got[1] == TIMES * world_size, "%ld %ld", (long) got[0], (long) got[1]);
    }
    MPI_Win_fence(0, win);
    MPI_Type_free(&odd);
    MPI_Type_free(&vector);
}

static void passive(void)
{
    enum { TIMES = 200 };
    zero();
    int to = world_size - 1;
    int64_t one = 1, old = -1, highest = -1, *words = (void *) base;
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < TIMES; ++i) {
        MPI_Fetch_and_op(&one, &old, MPI_INT64_T, to, 0, MPI_SUM, win);
        MPI_Win_flush(to, win);
        CHECK(old > highest, "%ld after %ld", (long) old, (long) highest);
        highest = old;
    }
    for (int64_t known = 0; world_rank != to && known < 50;) {
        int64_t more = known + 1;
        MPI_Compare_and_swap(&more, &known, &old, MPI_INT64_T, to, 1, win);
        MPI_Win_flush_local(to, win);
        known = old;
    }
    MPI_Request requests[6];
    double put = 3, got[3] = {0};
    MPI_Rput(&put, 1, MPI_DOUBLE, next, 40 + world_rank, 1, MPI_DOUBLE, win, requests);
    MPI_Rget(got, 1, MPI_DOUBLE, world_rank, 0, 1, MPI_DOUBLE, win, requests + 1);
    MPI_Raccumulate(&one, 1, MPI_INT64_T, to, 2, 1, MPI_INT64_T, MPI_SUM, win, requests + 2);
    MPI_Rget_accumulate(&one, 1, MPI_INT64_T, &old, 1, MPI_INT64_T, to, 3, 1, MPI_INT64_T, MPI_SUM, win, requests + 3);
    MPI_Rget(got + 1, 1, MPI_DOUBLE, MPI_PROC_NULL, 0, 1, MPI_DOUBLE, win, requests + 4);
    long double wide = 1;
    MPI_Raccumulate(&wide, 1, MPI_LONG_DOUBLE, to, 4, 1, MPI_LONG_DOUBLE, MPI_SUM, win, requests + 5);
    MPI_Waitall(6, requests, MPI_STATUSES_IGNORE);
    /* The program frees this request before it is complete. */
    MPI_Rput(&put, 1, MPI_DOUBLE, next, 60 + world_rank, 1, MPI_DOUBLE, win, requests);
    MPI_Request_free(requests);
    MPI_Rput(&put, 1, MPI_DOUBLE, next, 80 + world_rank, 1, MPI_DOUBLE, win, requests);
    for (int done = 0; !done;) MPI_Test(requests, &done, MPI_STATUS_IGNORE);
    MPI_Win_flush_all(win);
    MPI_Win_flush_local_all(win);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, world_rank, 0, win);
    long double *wides = (void *) (base + 4);
    if (world_rank == to) {
        CHECK(words[0] == TIMES * world_size && words[2] == world_size && words[3] == world_size && *wides == world_size, "%ld %ld %ld",
              (long) words[0], (long) words[2], (long) words[3]);
        CHECK(1 == world_size || words[1] >= 50, "%ld", (long) words[1]);
    }
    CHECK(base[40 + last] == 3 && base[60 + last] == 3 && base[80 + last] == 3, "%g %g %g", base[40 + last], base[60 + last], base[80 + last]);
    MPI_Win_unlock(world_rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
    /* Only locks protect this number. */
    for (int i = 0; i < TIMES; ++i) {
        double number;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win);
        MPI_Get(&number, 1, MPI_DOUBLE, to, 100, 1, MPI_DOUBLE, win);
        MPI_Win_flush(to, win);
        number += 1;
        MPI_Put(&number, 1, MPI_DOUBLE, to, 100, 1, MPI_DOUBLE, win);
        MPI_Win_unlock(to, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
    double number = 0;
    MPI_Get(&number, 1, MPI_DOUBLE, to, 100, 1, MPI_DOUBLE, win);
    MPI_Win_unlock(to, win);
    CHECK(number == TIMES * world_size, "%g", number);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, next, MPI_MODE_NOCHECK, win);
    MPI_Put(&put, 1, MPI_DOUBLE, next, 101, 1, MPI_DOUBLE, win);
    MPI_Win_unlock(next, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void groups(void)
{
    zero();
    MPI_Group world, to, from, none;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &next, &to);
    MPI_Group_incl(world, 1, &last, &from);
    for (int turn = 1; turn < 20; ++turn) {
        double x = turn * 100 + world_rank;
        MPI_Win_post(from, 0, win);
        MPI_Win_start(to, 0, win);
        MPI_Put(&x, 1, MPI_DOUBLE, next, turn, 1, MPI_DOUBLE, win);
        MPI_Win_complete(win);
        if (turn % 2) MPI_Win_wait(win);
        else for (int done = 0; !done;) MPI_Win_test(win, &done);
        CHECK(base[turn] == turn * 100 + last, "%g", base[turn]);
    }
    MPI_Group_incl(world, 0, NULL, &none);
    MPI_Win_post(none, 0, win);
    MPI_Win_start(none, 0, win);
    MPI_Win_complete(win);
    MPI_Win_wait(win);
    MPI_Group_free(&to);
    MPI_Group_free(&from);
    MPI_Group_free(&world);
    if (MPI_GROUP_EMPTY != none) MPI_Group_free(&none);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void errors(void)
{
    double x = 0;
    base[WORDS - 1] = world_rank + 0.5;
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    int outside = class_of(MPI_Put(&x, 1, MPI_DOUBLE, next, 0, 1, MPI_DOUBLE, win));
    CHECK(MPI_ERR_RMA_SYNC == outside, "a put outside an epoch: class %d", outside);
    int unlocked = class_of(MPI_Win_unlock(next, win));
    CHECK(MPI_ERR_RMA_SYNC == unlocked, "an unlock without a lock: class %d", unlocked);
    MPI_Win_lock_all(0, win);
    int beyond = class_of(MPI_Put(&x, 1, MPI_DOUBLE, next, WORDS, 1, MPI_DOUBLE, win));
    CHECK(MPI_ERR_RMA_RANGE == beyond, "a put beyond the window: class %d", beyond);
    int before = class_of(MPI_Get(&x, 1, MPI_DOUBLE, next, -1, 1, MPI_DOUBLE, win));
    CHECK(MPI_SUCCESS != before, "a get before the window: class %d", before);
    MPI_Win_unlock_all(win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_ARE_FATAL);
    /* If memory is not mapped here, MPI requires no bytes and no error. */
    for (int rank = MPI_PROC_NULL; rank < world_size; rank = rank < 0 ? 0 : rank + 1) {
        MPI_Aint bytes;
        int unit;
        double *at;
        MPI_Win_shared_query(win, rank, &bytes, &unit, &at);
        CHECK((0 == bytes || WORDS * sizeof *base == (size_t) bytes) && sizeof *base == (size_t) unit, "%ld %d", (long) bytes, unit);
        CHECK(rank != world_rank || at == base, "the own memory is at %p", (void *) at);
        CHECK(0 == bytes || MPI_PROC_NULL == rank || at[WORDS - 1] == rank + 0.5, "rank %d: %g", rank, at[WORDS - 1]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void try_window(void)
{
    served(win);
    transfers();
    types_at_one_place();
    accumulates();
    passive();
    groups();
    errors();
    MPI_Win_free(&win);
}

/* Memory that is attached later, and named by its address. */
static void dynamic(void)
{
    enum { REGIONS = 80 };
    static double memory[REGIONS][8];
    MPI_Aint own[REGIONS], theirs[REGIONS];
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    served(win);
    for (int i = 0; i < REGIONS; ++i) {
        MPI_Win_attach(win, memory[i], sizeof memory[i]);
        MPI_Get_address(memory[i], own + i);
    }
    MPI_Sendrecv(own, REGIONS, MPI_AINT, last, 0, theirs, REGIONS, MPI_AINT, next, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < REGIONS; ++i) {
        double x = 100 * world_rank + i, one = 1;
        MPI_Put(&x, 1, MPI_DOUBLE, next, theirs[i] + 8, 1, MPI_DOUBLE, win);
        MPI_Accumulate(&one, 1, MPI_DOUBLE, next, theirs[i], 1, MPI_DOUBLE, MPI_SUM, win);
        MPI_Win_flush(next, win);
    }
    /* One call accesses memory that was attached in two parts. */
    double both[6] = {1, 2, 3, 4, 5, 6}, read[6] = {0}, added[6] = {0};
    MPI_Put(both, 6, MPI_DOUBLE, next, theirs[10] + 40, 6, MPI_DOUBLE, win);
    MPI_Win_flush(next, win);
    MPI_Accumulate(both, 6, MPI_DOUBLE, next, theirs[10] + 40, 6, MPI_DOUBLE, MPI_REPLACE, win);
    MPI_Request request;
    MPI_Rget(read, 6, MPI_DOUBLE, next, theirs[10] + 40, 6, MPI_DOUBLE, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Rget_accumulate(both, 6, MPI_DOUBLE, added, 6, MPI_DOUBLE, next, theirs[10] + 40, 6, MPI_DOUBLE, MPI_NO_OP, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(read[0] == 1 && read[3] == 4 && read[5] == 6 && added[2] == 3 && added[3] == 4, "%g %g %g %g", read[0], read[3], read[5], added[3]);
    double none = 0;
    MPI_Put(&none, 1, MPI_DOUBLE, next, theirs[11], 1, MPI_DOUBLE, win);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    memory[11][0] = 1;
    memory[11][1] = 100 * last + 11;
    for (int i = 0; i < REGIONS; ++i) {
        CHECK(memory[i][0] == 1 && memory[i][1] == 100 * last + i, "region %d: %g %g", i, memory[i][0], memory[i][1]);
        MPI_Win_detach(win, memory[i]);
    }
    /* Zero bytes are attached twice: each attachment is detached once, whatever is
     * attached beside it. */
    for (int i = 0; i < 2; ++i) MPI_Win_attach(win, memory[1], 0);
    MPI_Win_attach(win, memory[0], sizeof memory[0]);
    for (int i = 0; i < 2; ++i) MPI_Win_detach(win, memory[1 - i]);
    MPI_Win_detach(win, memory[1]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    CHECK(MPI_SUCCESS != MPI_Win_detach(win, memory[1]), "detached once more");
    double x = 0;
    MPI_Win_lock_all(0, win);
    int detached = class_of(MPI_Put(&x, 1, MPI_DOUBLE, next, theirs[0], 1, MPI_DOUBLE, win));
    /* If a message carries the put, the target refuses the put. */
    if (MPI_SUCCESS == detached) detached = class_of(MPI_Win_flush(next, win));
    CHECK(MPI_ERR_RMA_RANGE == detached, "a put to memory that was detached: class %d", detached);
    MPI_Win_unlock_all(win);
    int twice = class_of(MPI_Win_detach(win, memory[0]));
    CHECK(MPI_SUCCESS != twice, "memory was detached twice");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    MPI_Win_allocate(WORDS * sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    try_window();
    double *memory = base = malloc(WORDS * sizeof *base);
    MPI_Win_create(base, WORDS * sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    try_window();
    free(memory);
    dynamic();
    /* The windows of the ranks differ, and one has no memory; a further window has one
     * process. */
    double *few = calloc(world_size, sizeof *few);
    int unit = world_rank % 2 ? 4 : 8;
    MPI_Aint bytes = 0 == world_rank ? 0 : (world_rank + 1) * sizeof *few;
    MPI_Win_create(0 == world_rank ? NULL : few, bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    served(win);
    /* MPI_PROC_NULL stands for the lowest rank with memory, which need not be mapped
     * here. */
    MPI_Aint of_first;
    double *at;
    MPI_Win_shared_query(win, MPI_PROC_NULL, &of_first, &unit, &at);
    CHECK(0 == of_first || 2 * sizeof *few == (size_t) of_first, "%ld", (long) of_first);
    CHECK(1 != world_rank || at == few, "the own memory is at %p", (void *) at);
    double x = world_rank;
    MPI_Win_fence(0, win);
    if (0 != next) MPI_Put(&x, 1, MPI_DOUBLE, next, next % 2 ? 2 : 1, 1, MPI_DOUBLE, win);
    MPI_Win_fence(0, win);
    CHECK(0 == world_rank || few[1] == last, "%g", few[1]);
    MPI_Win_free(&win);
    free(few);
    MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_SELF, &base, &win);
    served(win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Put(&x, 1, MPI_DOUBLE, 0, 0, 1, MPI_DOUBLE, win);
    MPI_Win_unlock(0, win);
    CHECK(*base == world_rank, "%g", *base);
    MPI_Win_free(&win);
    finish("osc_calls");
}
