/* Global Arrays over ARMCI-MPI, and so over windows, as programs of quantum chemistry use them. A shared
 * counter hands out the blocks of a matrix product; a task gets blocks of both factors, multiplies them, and
 * accumulates the block of the result. The next parts test patches that cross the ranks' parts, scattered and
 * gathered elements, a mutex, and Global Arrays' own product. Prints "global_arrays: ok, N ranks in X us a
 * task". */
#include <ga.h>
#include <macdecls.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 96, BLOCK = 16, BLOCKS = SIDE / BLOCK, TASKS = BLOCKS * BLOCKS * BLOCKS, POINTS = 200 };

static int rank, size;

static void check(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "global_arrays: rank %d: %s\n", rank, what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Small integers: sums of their products are exact in any order. */
static double left(int row, int column) { return (row * 3 + column) % 7 - 3; }
static double right(int row, int column) { return (row + column * 5) % 11 - 5; }

static double product(int row, int column)
{
    double sum = 0;
    for (int k = 0; k < SIDE; k++) sum += left(row, k) * right(k, column);
    return sum;
}

static int matrix(char *name)
{
    int sides[2] = {SIDE, SIDE}, array = NGA_Create(C_DBL, 2, sides, name, NULL);
    check(array != 0, "no array");
    GA_Zero(array);
    return array;
}

/* Each rank fills rows, which may belong to another rank. */
static void fill(int array, double (*value)(int, int))
{
    for (int row = (rank + 1) % size; row < SIDE; row += size) {
        double cells[SIDE];
        int low[2] = {row, 0}, high[2] = {row, SIDE - 1}, lead = SIDE;
        for (int column = 0; column < SIDE; column++) cells[column] = value(row, column);
        NGA_Put(array, low, high, cells, &lead);
    }
}

static void holds_product(int array, const char *what)
{
    static double cells[SIDE][SIDE];
    int low[2] = {0, 0}, high[2] = {SIDE - 1, SIDE - 1}, lead = SIDE;
    NGA_Get(array, low, high, cells, &lead);
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++) check(cells[row][column] == product(row, column), what);
    GA_Sync();
}

static void task(int number, int a, int b, int c)
{
    double left_block[BLOCK][BLOCK], right_block[BLOCK][BLOCK], out[BLOCK][BLOCK], one = 1;
    int row = number / (BLOCKS * BLOCKS) * BLOCK, column = number / BLOCKS % BLOCKS * BLOCK, k = number % BLOCKS * BLOCK, lead = BLOCK;
    int left_low[2] = {row, k}, left_high[2] = {row + BLOCK - 1, k + BLOCK - 1};
    int right_low[2] = {k, column}, right_high[2] = {k + BLOCK - 1, column + BLOCK - 1};
    int low[2] = {row, column}, high[2] = {row + BLOCK - 1, column + BLOCK - 1};
    ga_nbhdl_t first, second;
    NGA_NbGet(a, left_low, left_high, left_block, &lead, &first);
    NGA_NbGet(b, right_low, right_high, right_block, &lead, &second);
    NGA_NbWait(&first);
    NGA_NbWait(&second);
    for (int i = 0; i < BLOCK; i++)
        for (int j = 0; j < BLOCK; j++) {
            out[i][j] = 0;
            for (int l = 0; l < BLOCK; l++) out[i][j] += left_block[i][l] * right_block[l][j];
        }
    NGA_Acc(c, low, high, out, &lead, &one);
}

/* Elements all over an array: each rank scatters its own elements, and gathers the elements of the
 * next rank. */
static void points(int array)
{
    int places[POINTS][2], *subscripts[POINTS], next = (rank + 1) % size;
    double out[POINTS], in[POINTS];
    for (int at = 0; at < POINTS; at++) {
        int place = (at * size + rank) * 11 % (SIDE * SIDE);
        places[at][0] = place / SIDE;
        places[at][1] = place % SIDE;
        subscripts[at] = places[at];
        out[at] = place * 2.0;
    }
    NGA_Scatter(array, out, subscripts, POINTS);
    GA_Sync();
    for (int at = 0; at < POINTS; at++) {
        int place = (at * size + next) * 11 % (SIDE * SIDE);
        places[at][0] = place / SIDE;
        places[at][1] = place % SIDE;
    }
    NGA_Gather(array, in, subscripts, POINTS);
    for (int at = 0; at < POINTS; at++) check(in[at] == (places[at][0] * SIDE + places[at][1]) * 2.0, "an element has another value");
    GA_Sync();
}

/* A mutex protects a read, a change and a write against other ranks. */
static void mutex(int array)
{
    int low[2] = {SIDE - 1, SIDE - 1}, lead = 1, rounds = 20;
    double value;
    GA_Zero(array);
    check(GA_Create_mutexes(1), "no mutex");
    for (int round = 0; round < rounds; round++) {
        GA_Lock(0);
        NGA_Get(array, low, low, &value, &lead);
        value += 1;
        /* A fence waits for all puts since it was initialised. */
        GA_Init_fence();
        NGA_Put(array, low, low, &value, &lead);
        GA_Fence();
        GA_Unlock(0);
    }
    GA_Sync();
    NGA_Get(array, low, low, &value, &lead);
    check(value == (double) rounds * size, "an update was lost");
    check(GA_Destroy_mutexes(), "the mutex stays");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    GA_Initialize();
    check(MA_init(C_DBL, 1000000, 1000000), "no memory");
    rank = GA_Nodeid();
    size = GA_Nnodes();
    int one = 1, first = 0, counter = NGA_Create(C_LONG, 1, &one, "counter", NULL), a = matrix("a"), b = matrix("b"), c = matrix("c");
    check(counter != 0, "no counter");
    GA_Zero(counter);
    fill(a, left);
    fill(b, right);
    GA_Sync();

    double begin = MPI_Wtime();
    long done = 0, number;
    while ((number = NGA_Read_inc(counter, &first, 1)) < TASKS) {
        task((int) number, a, b, c);
        done++;
    }
    GA_Sync();
    double took = (MPI_Wtime() - begin) * 1e6 / TASKS;
    GA_Lgop(&done, 1, "+");
    check(done == TASKS, "a task was given twice or to nobody");
    holds_product(c, "the product by tasks is wrong");

    GA_Zero(c);
    GA_Dgemm('n', 'n', SIDE, SIDE, SIDE, 1.0, a, b, 0.0, c);
    holds_product(c, "Global Arrays' own product is wrong");
    points(c);
    mutex(c);

    if (0 == rank) printf("global_arrays: ok, %d ranks in %.2f us a task\n", size, took);
    GA_Destroy(c);
    GA_Destroy(b);
    GA_Destroy(a);
    GA_Destroy(counter);
    GA_Terminate();
    MPI_Finalize();
    return 0;
}
