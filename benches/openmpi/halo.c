/* Jacobi iterations on a square grid that is split over a Cartesian grid of ranks. After each sweep, edges go to the neighbours
 * by MPI_Put: between fences, then in epochs of post, start, complete and wait.
 *
 * Edges arrive in one of two sets of buffers in turn, so that one epoch for each iteration is enough: a set is written
 * again only after the epoch in between, and its owner enters this epoch after it has read the set. Columns are
 * packed.
 *
 * The result is checked bit by bit: each rank computes the whole grid alone and compares its own part. Prints the time
 * to solution of each kind.
 *
 * Usage: halo create|allocate POINTS ITERATIONS (points of a side of the whole grid) */
#include "job.h"

enum { UP, DOWN, LEFT, RIGHT, SIDES };

static const int opposite[SIDES] = {DOWN, UP, RIGHT, LEFT};

struct part {
    int rows, columns; /* of this rank */
    int row, column; /* the first ones, in the whole grid */
    int points; /* of a side of the whole grid */
    int neighbour[SIDES];
    double *now, *then; /* with a border of one point around */
};

static double *at(const struct part *part, double *grid, int row, int column)
{
    return &grid[(size_t) row * (size_t) (part->columns + 2) + (size_t) column];
}

/* The initial values of the grid; every point and the fixed border differ from their neighbours. */
static double first(int row, int column)
{
    return (double) ((row * 7919L + column * 104729L + 611953L) % 1000) / 1000;
}

static void fill(struct part *part)
{
    size_t bytes = (size_t) (part->rows + 2) * (size_t) (part->columns + 2) * sizeof(double);
    part->now = malloc(bytes);
    part->then = malloc(bytes);
    if (!part->now || !part->then) {
        stop("halo: no memory");
    }
    for (int i = 0; i < part->rows + 2; ++i) {
        for (int j = 0; j < part->columns + 2; ++j) {
            *at(part, part->now, i, j) = *at(part, part->then, i, j) = first(part->row + i, part->column + j);
        }
    }
}

static void release(struct part *part)
{
    free(part->now);
    free(part->then);
}

/* One iteration. The same code serves ranks and the check, so that both round alike. */
static __attribute__((noinline)) void sweep(struct part *part)
{
    size_t wide = (size_t) (part->columns + 2);
    for (int i = 1; i <= part->rows; ++i) {
        const double *from = at(part, part->now, i, 0);
        double *to = at(part, part->then, i, 0);
        for (int j = 1; j <= part->columns; ++j) {
            to[j] = 0.25 * (((from[j - (long) wide] + from[j + (long) wide]) + from[j - 1]) + from[j + 1]);
        }
    }
    double *swap = part->now;
    part->now = part->then;
    part->then = swap;
}

static int length(const struct part *part, int side)
{
    return side == UP || side == DOWN ? part->columns : part->rows;
}

/* A point of the edge on a side, or of the border outside it. */
static double *edge(const struct part *part, int side, int border, int i)
{
    switch (side) {
    case UP:
        return at(part, part->now, border ? 0 : 1, 1 + i);
    case DOWN:
        return at(part, part->now, part->rows + (border ? 1 : 0), 1 + i);
    case LEFT:
        return at(part, part->now, 1 + i, border ? 0 : 1);
    default:
        return at(part, part->now, 1 + i, part->columns + (border ? 1 : 0));
    }
}

/* The place in a window where the edges of a side arrive, counted in doubles. */
static size_t place(const struct part *part, int set, int side)
{
    return (size_t) (set * SIDES + side) * (size_t) part->points;
}

static void put_edges(const struct part *part, int set, double *packed, MPI_Win win)
{
    for (int side = 0; side < SIDES; ++side) {
        int n = length(part, side);
        double *from = packed + place(part, set, side);
        if (part->neighbour[side] == MPI_PROC_NULL) {
            continue;
        }
        for (int i = 0; i < n; ++i) {
            from[i] = *edge(part, side, 0, i);
        }
        MPI_Put(from, n, MPI_DOUBLE, part->neighbour[side], (MPI_Aint) place(part, set, opposite[side]), n, MPI_DOUBLE, win);
    }
}

static void take_edges(const struct part *part, int set, const double *arrived)
{
    for (int side = 0; side < SIDES; ++side) {
        const double *from = arrived + place(part, set, side);
        for (int i = 0; part->neighbour[side] != MPI_PROC_NULL && i < length(part, side); ++i) {
            *edge(part, side, 1, i) = from[i];
        }
    }
}

static MPI_Group neighbours(const struct part *part, MPI_Comm comm)
{
    int ranks[SIDES], count = 0;
    MPI_Group all, group;
    for (int side = 0; side < SIDES; ++side) {
        if (part->neighbour[side] != MPI_PROC_NULL) {
            ranks[count++] = part->neighbour[side];
        }
    }
    MPI_Comm_group(comm, &all);
    MPI_Group_incl(all, count, ranks, &group);
    MPI_Group_free(&all);
    return group;
}

/* Iterations with their exchanges; returns seconds. */
static double iterate(struct part *part, int fences, int iterations, double *arrived, double *packed, MPI_Comm comm, MPI_Win win)
{
    MPI_Group group = neighbours(part, comm);
    MPI_Barrier(comm);
    double begin = now();
    if (fences) {
        MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
    }
    for (int i = 0; i < iterations; ++i) {
        int set = i % 2;
        if (fences) {
            put_edges(part, set, packed, win);
            MPI_Win_fence(0, win);
        } else {
            MPI_Win_post(group, 0, win);
            MPI_Win_start(group, 0, win);
            put_edges(part, set, packed, win);
            MPI_Win_complete(win);
            MPI_Win_wait(win);
        }
        take_edges(part, set, arrived);
        sweep(part);
    }
    if (fences) {
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    }
    MPI_Barrier(comm);
    double seconds = now() - begin;
    MPI_Group_free(&group);
    return seconds;
}

/* The number of points of this rank that differ from those of the whole grid after as many
 * iterations. */
static long differences(struct part *part, int iterations)
{
    struct part whole = {.rows = part->points, .columns = part->points, .points = part->points};
    long wrong = 0;
    fill(&whole);
    for (int i = 0; i < iterations; ++i) {
        sweep(&whole);
    }
    for (int i = 1; i <= part->rows; ++i) {
        for (int j = 1; j <= part->columns; ++j) {
            wrong += *at(part, part->now, i, j) != *at(&whole, whole.now, part->row + i, part->column + j);
        }
    }
    release(&whole);
    return wrong;
}

int main(int argc, char **argv)
{
    int rank, size, dims[2] = {0, 0}, periods[2] = {0, 0}, coords[2], code = 0;
    MPI_Comm grid;
    struct part part;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 4) {
        stop("usage: halo create|allocate POINTS ITERATIONS");
    }
    const char *kind = argv[1];
    int iterations = atoi(argv[3]);
    part.points = atoi(argv[2]);
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
    MPI_Comm_rank(grid, &rank);
    MPI_Cart_coords(grid, rank, 2, coords);
    MPI_Cart_shift(grid, 0, 1, &part.neighbour[UP], &part.neighbour[DOWN]);
    MPI_Cart_shift(grid, 1, 1, &part.neighbour[LEFT], &part.neighbour[RIGHT]);
    if (part.points < 1 || iterations < 1 || part.points % dims[0] || part.points % dims[1]) {
        stop("halo: POINTS must be a multiple of both sides of the grid of ranks, ITERATIONS at least 1");
    }
    part.rows = part.points / dims[0];
    part.columns = part.points / dims[1];
    part.row = coords[0] * part.rows;
    part.column = coords[1] * part.columns;
    pin(rank);
    for (int fences = 1; fences >= 0; --fences) {
        size_t bytes = 2 * SIDES * (size_t) part.points * sizeof(double);
        MPI_Win win;
        double *packed = calloc(1, bytes), *arrived = make_window(kind, bytes, sizeof(double), grid, &win);
        if (!packed) {
            stop("halo: no memory");
        }
        /* Connections are made before the measurement. */
        fill(&part);
        iterate(&part, fences, 2, arrived, packed, grid, win);
        release(&part);
        fill(&part);
        double seconds = iterate(&part, fences, iterations, arrived, packed, grid, win);
        code |= conclude(fences ? "halo_fence" : "halo_pscw", (size_t) part.columns * sizeof(double), seconds,
                         differences(&part, iterations));
        release(&part);
        drop_window(kind, arrived, &win);
        free(packed);
    }
    MPI_Comm_free(&grid);
    MPI_Finalize();
    return code;
}
