/* Messages of 64 KiB to 8 MiB from each rank to the next, contiguous and not; pml/ob1 divides them in several
 * ways. */
#include "check.h"

enum { LONGEST = 8 << 20 };

static unsigned char pattern(size_t i, int seed)
{
    return (unsigned char) (i * 29 + (i >> 9) * 11 + (size_t) seed * 83 + 1);
}

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(1 < world_size, "run with 2 ranks or more");
    unsigned char *from = malloc(2 * LONGEST), *to = malloc(2 * LONGEST);
    CHECK(from && to, "memory");
    for (size_t size = 64 << 10; size <= LONGEST; size *= 2) {
        for (size_t step = 1; step <= 2; ++step) {
            /* Blocks of 1 KiB, each followed by a gap. */
            MPI_Datatype type;
            MPI_Type_vector((int) (size / 1024), 1024, (int) (1024 * step), MPI_BYTE, &type);
            MPI_Type_commit(&type);
            for (size_t i = 0; i < step * size; ++i) {
                from[i] = pattern(i, world_rank);
            }
            memset(to, 0, step * size);
            MPI_Sendrecv(from, 1, type, next, 7, to, 1, type, last, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (size_t i = 0; i < step * size; ++i) {
                unsigned char due = i / 1024 % step ? 0 : pattern(i, last);
                CHECK(to[i] == due, "%zu bytes, every %zu: byte %zu is %u, not %u", size, step, i, to[i], due);
            }
            MPI_Type_free(&type);
        }
    }
    free(from);
    free(to);
    finish("long_messages");
    return 0;
}
