/* Window memory is returned to the system before MPI_Win_free, as in programs of MPICH's suite. The window is
 * not used afterwards. With a provider that registers addresses this is no error, and the job must go on. */
#include "check.h"
#include <sys/mman.h>

int main(int argc, char **argv)
{
    enum { SIZE = 1 << 20 };
    start(&argc, &argv, MPI_THREAD_SINGLE);
    for (int round = 1; round <= 10; ++round) {
        /* The block is large enough for malloc to map it and for free to unmap it; every second
         * round maps the memory itself. */
        char *memory = round % 2 ? malloc(SIZE)
                                 : mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(memory && memory != MAP_FAILED, "no memory");
        MPI_Win win = window(memory, SIZE);
        int32_t value = 100 * round + world_rank, back = -1;
        MPI_Win_fence(0, win);
        MPI_Put(&value, 1, MPI_INT32_T, next, SIZE - 8, 1, MPI_INT32_T, win);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        memcpy(&back, memory + SIZE - 8, sizeof(back));
        CHECK(back == 100 * round + last, "round %d left %d", round, back);
        if (round % 2) {
            free(memory);
        } else {
            CHECK(0 == munmap(memory, SIZE), "munmap");
        }
        MPI_Win_free(&win);
    }
    finish("freed_early");
    return 0;
}
