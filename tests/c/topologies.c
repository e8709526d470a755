/* Grids and graphs of ranks, what they say of themselves, collectives among neighbours, and windows beyond a border. */
#include "example.h"

#define MOST 16

static int rank, size;
static host_comm_t *world;

static void refused(int code, const char *why) {
    if (code != HOST_ERR_ARG && code != HOST_ERR_COMM) {
        fprintf(stderr, "%d, not refused: %s\n", code, why);
        exit(1);
    }
    if (!strstr(host_error_text(), why)) {
        fprintf(stderr, "%s, which says nothing of %s\n", host_error_text(), why);
        exit(1);
    }
}

static void dimensions(void) {
    int dims[3] = {0, 2, 0}, flat[2] = {0, 0};
    MUST(host_dims_create(24, 3, dims));
    EXPECT(dims[0] == 4 && dims[1] == 2 && dims[2] == 3);
    MUST(host_dims_create(1, 2, flat));
    EXPECT(flat[0] == 1 && flat[1] == 1);
    refused(host_dims_create(25, 3, dims), "no grid of 25 ranks");
    dims[1] = -2;
    refused(host_dims_create(24, 3, dims), "dimension 1 is -2");
    refused(host_dims_create(-1, 3, dims), "a grid of -1 ranks");
    refused(host_dims_create(24, 3, NULL), "the dimensions are NULL");
    refused(host_dims_create(24, (size_t)-1, dims), "more than an int can count");
}

/* Two rows; the columns are rings, and the last rank of an odd number has no place. */
static void grid(void) {
    host_comm_t *grid = NULL;
    int columns = size / 2, dims[2] = {2, columns}, periods[2] = {0, 1}, found[2], closed[2], at[2];
    EXPECT(host_comm_topology(world) == HOST_TOPOLOGY_NONE);
    refused(host_cart_rank(world, 2, dims), "without a topology");
    refused(host_cart_create(world, 2, dims, NULL, 0, &grid), "the periods are NULL");
    refused(host_cart_create(world, (size_t)-1, dims, periods, 0, &grid), "more than an int can count");
    dims[0] = size + 1;
    refused(host_cart_create(world, 2, dims, periods, 0, &grid), columns == 0 ? "is 0" : "more places");
    dims[0] = 2;
    if (columns == 0) {
        return;
    }
    MUST(host_cart_create(world, 2, dims, periods, 1, &grid));
    EXPECT((grid == NULL) == (rank >= 2 * columns));
    if (!grid) {
        return;
    }
    EXPECT(host_comm_size(grid) == 2 * columns && host_comm_rank(grid) == rank);
    EXPECT(host_comm_topology(grid) == HOST_TOPOLOGY_CART && host_cartdim_get(grid) == 2);
    MUST(host_cart_get(grid, 2, found, closed, at));
    EXPECT(found[0] == 2 && found[1] == columns && closed[0] == 0 && closed[1] == 1);
    EXPECT(at[0] == rank / columns && at[1] == rank % columns);
    EXPECT(host_cart_rank(grid, 2, at) == rank);
    at[1] -= 5 * columns;
    EXPECT(host_cart_rank(grid, 2, at) == rank);
    at[0] = 2;
    refused(host_cart_rank(grid, 2, at), "open borders");
    refused(host_cart_rank(grid, 1, at), "1 coordinates");
    refused(host_cart_rank(grid, (size_t)-1, at), "coordinates in a grid of 2 dimensions");
    MUST(host_cart_coords(grid, 2 * columns - 1, 2, at));
    EXPECT(at[0] == 1 && at[1] == columns - 1);
    refused(host_cart_coords(grid, 2 * columns, 2, at), "no rank");
    refused(host_cart_coords(grid, 0, 3, at), "3 places for 2 numbers");

    int before, behind, left, right, from[4], to[4];
    MUST(host_cart_shift(grid, 0, 1, &before, &behind));
    EXPECT(before == (rank < columns ? HOST_PROC_NULL : rank - columns));
    EXPECT(behind == (rank < columns ? rank + columns : HOST_PROC_NULL));
    MUST(host_cart_shift(grid, 1, 1, &left, &right));
    EXPECT(left % columns == (rank + columns - 1) % columns && right % columns == (rank + 1) % columns);
    refused(host_cart_shift(grid, 2, 1, &left, &right), "no dimension 2");
    size_t sources, destinations;
    MUST(host_neighbors_count(grid, &sources, &destinations));
    EXPECT(sources == 4 && destinations == 4);
    MUST(host_neighbors(grid, 4, from, 4, to));
    EXPECT(memcmp(from, to, sizeof from) == 0);
    EXPECT(from[0] == before && from[1] == behind && from[2] == left && from[3] == right);

    /* A halo: what leaves to the left is on the right of the neighbour, and at open borders nothing arrives. */
    int32_t out[4], in[4];
    for (int i = 0; i < 4; i++) {
        out[i] = 10 * rank + i, in[i] = -1;
    }
    host_coll_args_t args = {.magic = HOST_COLL_ARGS_MAGIC, .size = sizeof args, .send = out, .recv = in,
                             .count = 1, .datatype = HOST_INT32};
    host_persistent_t *halo = NULL;
    MUST(host_coll_init(grid, HOST_COLL_NEIGHBOR_ALLTOALL, &args, &halo));
    for (int turn = 0; turn < 3; turn++) {
        MUST(host_coll_start(halo));
        MUST(host_coll_finish(halo));
        for (int i = 0; i < 4; i++) {
            EXPECT(in[i] == (from[i] == HOST_PROC_NULL ? -1 : 10 * from[i] + (i ^ 1)));
            in[i] = -1;
        }
    }
    MUST(host_coll_free(&halo));
    refused(host_neighbor_alltoall(NULL, in, 1, HOST_INT32, grid), "null address");
    MUST(host_comm_free(&grid));
}

/* Rank 0 sends each other rank two blocks and itself one; they send back one. */
static void graph(void) {
    host_comm_t *star = NULL;
    int from[2 * MOST], to[2 * MOST], found[2 * MOST], last = size - 1;
    size_t sources = 0, destinations = 0, in, out;
    if (rank == 0) {
        to[destinations++] = 0, from[sources++] = 0;
        for (int other = 1; other < size; other++) {
            to[destinations++] = other, to[destinations++] = other, from[sources++] = other;
        }
    } else {
        from[sources++] = 0, from[sources++] = 0, to[destinations++] = 0;
    }
    MUST(host_dist_graph_create_adjacent(world, sources, from, destinations, to, &star));
    EXPECT(host_comm_topology(star) == HOST_TOPOLOGY_GRAPH);
    refused(host_cartdim_get(star), "is no grid");
    MUST(host_neighbors_count(star, &in, &out));
    EXPECT(in == sources && out == destinations);
    MUST(host_neighbors(star, in, found, out, found + MOST));
    EXPECT(memcmp(found, from, sources * sizeof *from) == 0);
    refused(host_neighbors(star, in + 1, found, out, found), "places for");

    /* The second block of an edge is twice as long as the first, and lies before it. */
    int32_t mine[4 * MOST], all[4 * MOST];
    size_t counts[2 * MOST], places[2 * MOST], back[2 * MOST], gaps[2 * MOST];
    for (size_t i = 0; i < 4 * MOST; i++) {
        mine[i] = 100 * rank + (int)i, all[i] = -1;
    }
    for (size_t i = 0; i < destinations; i++) {
        counts[i] = rank == 0 && i > 0 && i % 2 == 0 ? 2 : 1, places[i] = 2 * i;
    }
    for (size_t i = 0; i < sources; i++) {
        back[i] = rank != 0 && i == 1 ? 2 : 1, gaps[i] = rank == 0 ? i : 2 - 2 * i;
    }
    MUST(host_neighbor_alltoallv(mine, counts, places, all, back, gaps, HOST_INT32, star));
    if (rank == 0) {
        EXPECT(all[0] == 0 && (size == 1 || all[last] == 100 * last));
    } else {
        int first = 2 * (2 * rank - 1);
        EXPECT(all[2] == first && all[0] == first + 2 && all[1] == first + 3 && all[3] == -1);
    }
    MUST(host_comm_free(&star));
    refused(host_dist_graph_create_adjacent(world, 0, NULL, rank == last, &size, &star), "no rank");
    int none = -1;
    refused(host_dist_graph_create_adjacent(world, 0, NULL, 1, &none, &star), "no rank -1");
    refused(host_dist_graph_create_adjacent(world, 1, &last, 0, NULL, &star), "among its sources");
    EXPECT(star == NULL);
}

/* Each call to HOST_PROC_NULL does nothing and succeeds, in an epoch or not; its request is complete. */
static void to_no_rank(host_win_t *win) {
    const int none = HOST_PROC_NULL;
    int64_t one = 1, found = 9;
    host_layout_t row = {.magic = HOST_LAYOUT_MAGIC, .size = sizeof row, .count = 1, .length = 1};
    row.datatype = HOST_INT64;
    MUST(host_put(&one, sizeof one, none, 1000, win));
    MUST(host_put_notify(&one, sizeof one, none, 1000, 0, win));
    MUST(host_get(&found, sizeof found, none, 1000, win));
    MUST(host_put_typed(&one, 1, HOST_INT64, none, 1000, win));
    MUST(host_get_typed(&found, 1, HOST_INT64, none, 1000, win));
    MUST(host_put_layout(&one, &row, none, 1000, &row, win));
    MUST(host_get_layout(&found, &row, none, 1000, &row, win));
    MUST(host_accumulate_layout(&one, &row, HOST_SUM, none, 1000, &row, win));
    MUST(host_accumulate(&one, 1, HOST_INT64, HOST_SUM, none, 1000, win));
    MUST(host_get_accumulate(&one, &found, 1, HOST_INT64, HOST_SUM, none, 1000, win));
    MUST(host_fetch_and_op(&one, &found, HOST_INT64, HOST_SUM, none, 1000, win));
    MUST(host_compare_and_swap(&one, &one, &found, HOST_INT64, none, 1000, win));
    EXPECT(host_put(&one, sizeof one, none, 0, NULL) == HOST_ERR_ARG);

    host_request_t *all[6] = {NULL};
    size_t index = 6;
    int done = 0;
    MUST(host_rput(&one, sizeof one, none, 1000, win, &all[0]));
    MUST(host_rget(&found, sizeof found, none, 1000, win, &all[1]));
    MUST(host_rput_typed(&one, 1, HOST_INT64, none, 1000, win, &all[2]));
    MUST(host_rget_typed(&found, 1, HOST_INT64, none, 1000, win, &all[3]));
    MUST(host_raccumulate(&one, 1, HOST_INT64, HOST_SUM, none, 1000, win, &all[4]));
    MUST(host_rget_accumulate(&one, &found, 1, HOST_INT64, HOST_SUM, none, 1000, win, &all[5]));
    MUST(host_test(&all[0], &done));
    EXPECT(done == 1 && all[0] == NULL);
    MUST(host_waitany(6, all, &index));
    EXPECT(index == 1 && all[1] == NULL && all[2] != NULL);
    MUST(host_waitall(6, all));
    EXPECT(all[5] == NULL && found == 9);
}

/* With each table: a call to no rank goes to none of its functions. */
static void windows(void) {
    const char *tables[] = {"shm", "btl"};
    for (int i = 0; i < 2; i++) {
        host_info_t *info = NULL;
        host_win_t *win = NULL;
        MUST(host_info_create(&info));
        MUST(host_info_set(info, "host_win_table", tables[i]));
        MUST(host_win_allocate_over(world, 64, 8, info, &win));
        MUST(host_info_free(&info));
        to_no_rank(win);
        MUST(host_win_free(&win));
    }
}

int main(void) {
    MUST(host_init());
    MUST(host_comm_world(&world));
    rank = host_comm_rank(world), size = host_comm_size(world);
    EXPECT(size <= MOST);
    dimensions();
    grid();
    graph();
    windows();
    MUST(host_finalize());
    printf("passed\n");
    return 0;
}
