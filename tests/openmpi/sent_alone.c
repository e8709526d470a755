/* A message arrives after MPI_Send has returned, even if the sender does not enter MPI again. This also holds
 * for btl/tcp, whose sends are complete when the kernel has them. Rank 0 sends and then waits outside MPI,
 * until a file of each other rank says that everything has arrived. The parts are the first message to a
 * rank, consecutive short messages, and longer messages, also to a rank that receives them late. A message of
 * one byte follows each part. */
#include "check.h"
#include <time.h>
#include <unistd.h>

enum { PARTS = 7, LATE = 5, LONGEST = 120000, LIMIT = 10 };

static const struct { int count, size; } parts[PARTS] = {{1, 8}, {3, 8}, {100, 8}, {1, 15000}, {1, 60000}, {4, LONGEST}, {100, 8}};

/* The file by which a rank reports that a part has arrived. */
static void name(char *to, size_t size, const char *folder, int part, int rank)
{
    snprintf(to, size, "%s/%d.%d", folder, part, rank);
}

static void wait_outside(const char *folder, int part)
{
    char file[256];
    time_t end = time(NULL) + LIMIT;
    for (int rank = 1; rank < world_size; ++rank) {
        name(file, sizeof(file), folder, part, rank);
        while (unlink(file)) {
            CHECK(time(NULL) < end, "%d messages of %d bytes did not arrive within %d s at rank %d", parts[part].count,
                  parts[part].size, LIMIT, rank);
            usleep(1000);
        }
    }
}

static void say(const char *folder, int part)
{
    char file[256];
    name(file, sizeof(file), folder, part, world_rank);
    FILE *f = fopen(file, "w");
    CHECK(f && 0 == fclose(f), "writing %s", file);
}

int main(int argc, char **argv)
{
    static char buffer[LONGEST];
    char folder[] = "/tmp/sent_alone.XXXXXX";
    start(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(1 < world_size, "run with 2 ranks or more");
    /* The name is part of rank 0's first messages, so they do not count in the rest. */
    CHECK(world_rank || mkdtemp(folder), "a folder");
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
            wait_outside(folder, part);
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
            say(folder, part);
        }
    }
    if (0 == world_rank) {
        rmdir(folder);
    }
    finish("sent_alone");
    return 0;
}
