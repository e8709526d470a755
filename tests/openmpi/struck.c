/* Rank 1 is killed or stopped in the middle of epochs of one kind, which all ranks repeat without end: the
 * job must end soon. The arguments are the kind, `kill` or `stop`, and the time: `+N` before the N-th step,
 * or N microseconds. */
#include "check.h"
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { BIG = 1 << 16 };

static long steps_left = -1;
static int fate;

static void strike(int unused)
{
    (void) unused;
    /* The script measures the time from this line on. */
    static const char said[] = "struck\n";
    ssize_t written = write(1, said, sizeof said - 1);
    (void) written;
    kill(getpid(), fate);
}

static void step(void)
{
    if (steps_left >= 0 && 0 == steps_left--) {
        strike(0);
    }
}

static void operate(MPI_Win win, char *buffer, int target)
{
    static int64_t one = 1, old[4];
    for (int i = 0; i < 3; ++i) {
        step();
        int size = i ? 8 : BIG;
        MPI_Put(buffer, size, MPI_BYTE, target, 64, size, MPI_BYTE, win);
        MPI_Fetch_and_op(&one, &old[i], MPI_INT64_T, target, 0, MPI_SUM, win);
    }
}

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(world_size == 3 && argc == 4, "run with 3 ranks, and three arguments");
    const char *kind = argv[1];
    char *memory = calloc(1, BIG + 64), *buffer = calloc(1, BIG);
    MPI_Win win = window(memory, BIG + 64);
    int others[2] = {(world_rank + 1) % 3, (world_rank + 2) % 3};
    MPI_Group world, group;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 2, others, &group);
    fprintf(stderr, "rank %d is %d\n", world_rank, (int) getpid());
    MPI_Barrier(MPI_COMM_WORLD);
    if (1 == world_rank) {
        fate = strcmp(argv[2], "kill") ? SIGSTOP : SIGKILL;
        if ('+' == argv[3][0]) {
            steps_left = atol(argv[3]);
        } else {
            long after = atol(argv[3]) + 1;
            struct itimerval timer = {.it_value = {after / 1000000, after % 1000000}};
            signal(SIGALRM, strike);
            setitimer(ITIMER_REAL, &timer, NULL);
        }
    }
    if (!strcmp(kind, "fence")) {
        MPI_Win_fence(0, win);
    }
    for (time_t end = time(NULL) + 60; time(NULL) < end;) {
        int target = others[rand() % 2];
        step();
        if (!strcmp(kind, "fence")) {
            operate(win, buffer, target);
            MPI_Win_fence(0, win);
        } else if (!strcmp(kind, "pscw")) {
            MPI_Win_post(group, 0, win);
            step();
            MPI_Win_start(group, 0, win);
            operate(win, buffer, target);
            MPI_Win_complete(win);
            step();
            MPI_Win_wait(win);
        } else if (!strcmp(kind, "lock")) {
            MPI_Win_lock(rand() % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target, 0, win);
            operate(win, buffer, target);
            MPI_Win_unlock(target, win);
        } else {
            MPI_Win_lock_all(0, win);
            operate(win, buffer, target);
            MPI_Win_flush(target, win);
            step();
            MPI_Win_unlock_all(win);
        }
    }
    printf("struck: rank %d never heard of it\n", world_rank);
    return 0;
}
