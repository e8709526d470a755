/* Each rank puts its number into its right neighbour's window and reads its left neighbour's back. */
#include "check.h"

int main(int argc, char **argv)
{
    int64_t cell[2] = {-1, -1};
    start(&argc, &argv, MPI_THREAD_SINGLE);
    int right = (world_rank + 1) % world_size, left = (world_rank + world_size - 1) % world_size;
    cell[1] = 1000 + world_rank;
    MPI_Win win = window(cell, sizeof(cell));
    int64_t mine = world_rank, got = -1;
    MPI_Win_fence(0, win);
    MPI_Put(&mine, 1, MPI_INT64_T, right, 0, 1, MPI_INT64_T, win);
    MPI_Get(&got, 1, MPI_INT64_T, left, sizeof(int64_t), 1, MPI_INT64_T, win);
    MPI_Win_fence(0, win);
    CHECK(cell[0] == left, "the left neighbour put %lld", (long long) cell[0]);
    CHECK(got == 1000 + left, "got %lld from rank %d", (long long) got, left);
    printf("rank %d: rank %d wrote into my window, and I read rank %d's\n", world_rank, left, left);
    fflush(stdout);
    MPI_Win_free(&win);
    finish("hello_window");
    return 0;
}
