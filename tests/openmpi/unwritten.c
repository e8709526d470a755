/* Puts uninitialised bytes: valgrind must report them in the component, and report no other error. */
#include "check.h"

int main(int argc, char **argv)
{
    enum { SIZE = 64 };
    char cell[SIZE] = {0};
    start(&argc, &argv, MPI_THREAD_SINGLE);
    MPI_Win win = window(cell, sizeof(cell));
    char *unwritten = malloc(SIZE);
    CHECK(unwritten, "no memory");
    MPI_Win_fence(0, win);
    MPI_Put(unwritten, SIZE, MPI_CHAR, (world_rank + 1) % world_size, 0, SIZE, MPI_CHAR, win);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    free(unwritten);
    finish("unwritten");
    return 0;
}
