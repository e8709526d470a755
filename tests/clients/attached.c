/* libyt's pattern for its grids: every rank attaches its own arrays to a dynamic window and learns the
 * addresses of all arrays. Inside two fences, each rank gets several arrays of each other rank. Then the
 * arrays are detached. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define GRIDS 8
#define CELLS 4096
#define TIMES 10

static int rank, size;

static double cell(int owner, int grid, int at) { return owner * 1e6 + grid * 1e4 + at; }

static void check(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "attached: rank %d: %s\n", rank, what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double *grids[GRIDS], *got = malloc(sizeof(double) * CELLS * GRIDS * (size_t) size);
    MPI_Aint mine[GRIDS], *all = malloc(sizeof(MPI_Aint) * GRIDS * (size_t) size);
    check(got && all, "no memory");
    for (int grid = 0; grid < GRIDS; grid++) {
        check(!!(grids[grid] = malloc(sizeof(double) * CELLS)), "no memory");
        for (int at = 0; at < CELLS; at++) grids[grid][at] = cell(rank, grid, at);
    }
    double begin = 0;
    for (int turn = 0; turn <= TIMES; turn++) {
        /* The first window is not timed: it opens the transport. */
        if (1 == turn) begin = MPI_Wtime();
        MPI_Win win;
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        for (int grid = 0; grid < GRIDS; grid++) {
            MPI_Win_attach(win, grids[grid], sizeof(double) * CELLS);
            MPI_Get_address(grids[grid], &mine[grid]);
        }
        MPI_Allgather(mine, GRIDS, MPI_AINT, all, GRIDS, MPI_AINT, MPI_COMM_WORLD);
        MPI_Win_fence(0, win);
        for (int owner = 0; owner < size; owner++)
            for (int grid = 0; grid < GRIDS; grid++)
                MPI_Get(got + CELLS * (owner * GRIDS + grid), CELLS, MPI_DOUBLE, owner, all[owner * GRIDS + grid], CELLS, MPI_DOUBLE, win);
        MPI_Win_fence(0, win);
        for (int owner = 0; owner < size; owner++)
            for (int grid = 0; grid < GRIDS; grid++)
                for (int at = 0; at < CELLS; at++)
                    check(got[CELLS * (owner * GRIDS + grid) + at] == cell(owner, grid, at), "a cell has another value");
        for (int grid = 0; grid < GRIDS; grid++) MPI_Win_detach(win, grids[grid]);
        MPI_Win_free(&win);
    }
    double took = (MPI_Wtime() - begin) * 1e6 / TIMES;
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == rank) printf("attached: ok, %d ranks in %.2f us a window\n", size, took);
    MPI_Finalize();
    return 0;
}
