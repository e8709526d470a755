/* A rank whose call has returned computes, or waits outside the host, while other ranks are still in their
 * calls: the messages that they need have already left. Rank 0 comes last, and then makes no call until the
 * files of all others say that their calls returned. */
#define _GNU_SOURCE
#include <time.h>
#include <unistd.h>

#include "example.h"

enum { TIMES = 4, LIMIT = 20, MOST = 64 };

static char folder[] = "/tmp/host_computes.XXXXXX";
static int rank, size;

static void name(char *to, size_t room, const char *stage, int who) {
    snprintf(to, room, "%s/%s.%d", folder, stage, who);
}

static void say(const char *stage) {
    char file[256];
    name(file, sizeof(file), stage, rank);
    FILE *f = fopen(file, "w");
    EXPECT(f && fclose(f) == 0);
}

static void compute(const char *stage) {
    char file[256];
    time_t end = time(NULL) + LIMIT;
    for (int who = 1; who < size; who++) {
        name(file, sizeof(file), stage, who);
        while (unlink(file) != 0) {
            if (time(NULL) > end) {
                fprintf(stderr, "%s: rank %d did not return within %d s\n", stage, who, LIMIT);
                exit(1);
            }
            usleep(1000);
        }
    }
}

/* Runs after the call: the others report that their calls returned, and rank 0 waits for
 * the reports. */
static void returned(const char *stage) {
    if (rank == 0) {
        compute(stage);
    } else {
        say(stage);
    }
}

static void come_last(void) {
    if (rank == 0) {
        usleep(20000);
    }
}

static void collectives(host_comm_t *world) {
    int64_t value = rank, sum = 0;
    come_last();
    MUST(host_bcast(&value, 1, HOST_INT64, 0, world));
    EXPECT(value == 0);
    returned("bcast");
    come_last();
    MUST(host_barrier());
    returned("barrier");
    come_last();
    value = rank;
    MUST(host_allreduce(&value, &sum, 1, HOST_INT64, HOST_SUM, world));
    EXPECT(sum == size * (size - 1) / 2);
    returned("allreduce");
}

static void epochs(host_win_t *win, const int *others) {
    int64_t value = 7;
    MUST(host_win_fence(win));
    if (rank == 0) {
        come_last();
        MUST(host_put(&value, sizeof(value), 1, 0, win));
    }
    MUST(host_win_fence(win));
    returned("fence");
    MUST(host_win_fence_end(win));
    if (rank == 0) {
        MUST(host_win_post(others, size - 1, 0, win));
        compute("start");
        MUST(host_win_wait(win));
    } else {
        int zero = 0;
        MUST(host_win_start(&zero, 1, 0, win));
        say("start");
        MUST(host_win_complete(win));
    }
}

int main(void) {
    host_comm_t *world = NULL;
    host_win_t *win = NULL;
    int others[MOST];
    MUST(host_init());
    rank = host_rank();
    size = host_size();
    EXPECT(1 < size && size <= MOST);
    MUST(host_comm_world(&world));
    for (int i = 1; i < size; i++) {
        others[i - 1] = i;
    }
    EXPECT(rank != 0 || mkdtemp(folder));
    MUST(host_bcast(folder, sizeof(folder), HOST_UINT8, 0, world));
    MUST(host_win_allocate_over(world, 64, 1, NULL, &win));
    for (int i = 0; i < TIMES; i++) {
        collectives(world);
        epochs(win, others);
    }
    MUST(host_win_free(&win));
    if (rank == 0) {
        rmdir(folder);
    }
    MUST(host_finalize());
    printf("passed\n");
    return 0;
}
