/* A message arrives after MPI_Send has returned, even if the sender does not enter MPI again. This also holds
 * for btl/tcp, whose sends are complete when the kernel has them. Rank 0 sends and then waits outside MPI,
 * until a file of each other rank says that everything has arrived. The parts are the first message to a
 * rank, consecutive short messages, and longer messages, also to a rank that receives them late. A message of
 * one byte follows each part. */
#include "outside.h"

enum { PARTS = 7, LATE = 5, LONGEST = 120000 };

static const struct { int count, size; } parts[PARTS] = {{1, 8}, {3, 8}, {100, 8}, {1, 15000}, {1, 60000}, {4, LONGEST}, {100, 8}};

/* By which a rank says that a part has arrived. */
static const char *arrived(int part, int rank)
{
    static char name[32];
    snprintf(name, sizeof(name), "%d.%d", part, rank);
    return name;
}

int main(int argc, char **argv)
{
    static char buffer[LONGEST];
    start(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(1 < world_size, "run with 2 ranks or more");
    /* The name is part of rank 0's first messages, so they do not count in the rest. */
    if (0 == world_rank) make_folder();
    for (int part = 0; part < PARTS; ++part) {
        const int count = parts[part].count, size = parts[part].size;
        if (0 == world_rank) {
            memset(buffer, 1 + part, size);
            for (int i = 0; i < count; ++i) {
                for (int to = 1; to < world_size; ++to) {
                    if (0 == part) {
                        MPI_Send(folder, sizeof(folder), MPI_CHAR, to, part, MPI_COMM_WORLD);
                    } else {
                        MPI_Send(buffer, size, MPI_BYTE, to, part, MPI_COMM_WORLD);
                    }
                }
            }
            for (int to = 1; to < world_size; ++to) {
                MPI_Send(buffer, 1, MPI_BYTE, to, part, MPI_COMM_WORLD);
            }
            char what[64];
            snprintf(what, sizeof(what), "%d messages of %d bytes", count, size);
            for (int rank = 1; rank < world_size; ++rank) {
                wait_outside(arrived(part, rank), what);
            }
        } else {
            if (LATE <= part) {
                usleep(200000);
            }
            for (int i = 0; i < count; ++i) {
                if (0 == part) {
                    MPI_Recv(folder, sizeof(folder), MPI_CHAR, 0, part, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                } else {
                    MPI_Recv(buffer, size, MPI_BYTE, 0, part, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                    CHECK(1 + part == buffer[0] && 1 + part == buffer[size - 1], "part %d brought %d", part, buffer[0]);
                }
            }
            MPI_Recv(buffer, 1, MPI_BYTE, 0, part, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            say(arrived(part, world_rank));
        }
    }
    if (0 == world_rank) {
        rmdir(folder);
    }
    finish("sent_alone");
    return 0;
}
