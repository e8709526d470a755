/* Heat on a plate that is split into columns between the ranks: in each step a rank puts its first and last column
 * into the borders of its neighbours, each as one strided transfer between two fences, and then computes.
 *
 *   host-stub launch -n 4 --provider shm -- ./halo
 */
#include "example.h"

#define ROWS 32
#define COLUMNS 16 /* of a rank, without the borders on both sides */
#define WIDTH (COLUMNS + 2)
#define STEPS 100

/* One step on a plate of `width` columns; the first and the last column are borders. */
static void step(const double *old, double *new, int width) {
    for (int row = 0; row < ROWS; row++) {
        for (int column = 1; column < width - 1; column++) {
            const double *at = &old[row * width + column];
            double above = row > 0 ? at[-width] : 0, below = row < ROWS - 1 ? at[width] : 0;
            new[row * width + column] = (4 * at[0] + at[-1] + at[1] + above + below) / 8;
        }
    }
}

/* The whole plate, computed by one process; the caller frees it. */
static double *serial(int ranks) {
    int width = ranks * COLUMNS + 2;
    double *old = calloc((size_t)(ROWS * width), sizeof *old), *new = calloc((size_t)(ROWS * width), sizeof *new);
    EXPECT(old != NULL && new != NULL);
    old[ROWS / 2 * width + COLUMNS / 2] = 1000;
    for (int i = 0; i < STEPS; i++) {
        step(old, new, width);
        double *swap = old;
        old = new, new = swap;
    }
    free(new);
    return old;
}

int main(void) {
    host_win_t *win = NULL;
    MUST(host_init());
    int rank = host_rank(), size = host_size();
    /* The plate is the window's memory, so that neighbours put into its borders. */
    MUST(host_win_allocate(ROWS * WIDTH * sizeof(double), sizeof(double), &win));
    double *plate = host_win_base(win), next[ROWS * WIDTH] = {0};
    if (rank == 0)
        plate[ROWS / 2 * WIDTH + COLUMNS / 2] = 1000;

    /* A column: ROWS elements, WIDTH apart. */
    host_layout_t column = {.magic = HOST_LAYOUT_MAGIC, .size = sizeof column, .datatype = HOST_DOUBLE,
                            .count = ROWS, .length = 1, .stride = WIDTH};
    for (int i = 0; i < STEPS; i++) {
        MUST(host_win_fence(win));
        if (rank > 0)
            MUST(host_put_layout(&plate[1], &column, rank - 1, WIDTH - 1, &column, win));
        if (rank < size - 1)
            MUST(host_put_layout(&plate[COLUMNS], &column, rank + 1, 0, &column, win));
        MUST(host_win_fence(win));
        step(plate, next, WIDTH);
        for (int row = 0; row < ROWS; row++)
            memcpy(&plate[row * WIDTH + 1], &next[row * WIDTH + 1], COLUMNS * sizeof *plate);
    }
    MUST(host_win_fence_end(win));

    double *whole = serial(size);
    for (int row = 0; row < ROWS; row++) {
        const double *wanted = &whole[row * (size * COLUMNS + 2) + rank * COLUMNS + 1];
        EXPECT(memcmp(&plate[row * WIDTH + 1], wanted, COLUMNS * sizeof *plate) == 0);
    }
    free(whole);
    MUST(host_win_free(&win));
    MUST(host_finalize());
    printf("passed\n");
    return 0;
}
