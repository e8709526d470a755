/*
 * The progress thread: its processor, its sleep without outstanding operations, and its wakeup by
 * operations that are issued meanwhile. The transport is slow, so that operations need the thread.
 *
 *   progress CORE expects the progress thread on this processor
 */
#include <dirent.h>
#include <sys/types.h>

#include "common.h"

static const double LONG = 30; /* seconds, for events that take milliseconds */

static void nap(double time) {
    struct timespec left = {(time_t)time, (long)(1e9 * (time - (double)(time_t)time))};
    nanosleep(&left, NULL);
}

/* The rest of a line of a thread's file in /proc that begins with `begins`. */
static int line_of(const char *thread, const char *file, const char *begins, char *line, int size) {
    char path[320];
    snprintf(path, sizeof path, "/proc/self/task/%s/%s", thread, file);
    FILE *open = fopen(path, "r");
    int found = 0;
    while (open != NULL && !found && fgets(line, size, open) != NULL) {
        size_t length = strlen(begins);
        found = strncmp(line, begins, length) == 0;
        if (found) {
            memmove(line, line + length, strlen(line + length) + 1);
            line[strcspn(line, "\n")] = '\0';
        }
    }
    if (open != NULL) {
        fclose(open);
    }
    return found;
}

/* The progress thread's number; 0 if there is no such thread. */
static pid_t find(void) {
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    pid_t found = 0;
    char line[256];
    while (tasks != NULL && (entry = readdir(tasks)) != NULL) {
        if (line_of(entry->d_name, "comm", "", line, sizeof line) && strcmp(line, "host-progress") == 0) {
            found = (pid_t)atoi(entry->d_name);
        }
    }
    if (tasks != NULL) {
        closedir(tasks);
    }
    return found;
}

/* The seconds of processor time that a thread of this process has used. */
static double used(pid_t thread) {
    struct timespec time = {0, 0};
    /* The kernel computes the number of another thread's clock in this way. */
    clockid_t clock = (clockid_t)((~(unsigned)thread << 3) | 6);
    CHECK(clock_gettime(clock, &time) == 0, "no clock of thread %d", (int)thread);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Waits until a thread has not run for a while; returns its running time in the last tenth of a
 * second. */
static double idle(pid_t thread) {
    double begun = seconds(), before, more = 1;
    do {
        before = used(thread);
        nap(0.1);
        more = used(thread) - before;
    } while (more > 0.001 && seconds() - begun < LONG);
    return more;
}

static int ended;

static void end(void *data, int status) {
    (void)data;
    CHECK(status == 0, "status %d", status);
    __atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
}

int main(int argc, char **argv) {
    int provided;
    host_win_t *win;
    int64_t number = 7, back = 0;
    MUST(host_init_thread(HOST_TASK_MULTIPLE, &provided));
    /* The thread names itself. */
    pid_t thread = 0;
    for (double begun = seconds(); thread == 0 && seconds() - begun < LONG; thread = find()) {
    }
    CHECK(thread != 0, "there is no progress thread");
    if (argc > 1) {
        char list[256], name[32];
        snprintf(name, sizeof name, "%d", (int)thread);
        /* The thread first binds itself to its processor. */
        double begun = seconds();
        int there = 0;
        while (!there && seconds() - begun < LONG) {
            there = line_of(name, "status", "Cpus_allowed_list:\t", list, sizeof list) &&
                    strcmp(list, argv[1]) == 0;
        }
        CHECK(there, "it runs on %s, not on %s", list, argv[1]);
    }
    MUST(host_win_allocate(64, 1, &win));
    MUST(host_win_lock_all(win));
    CHECK(idle(thread) < 0.001, "it runs although nothing is under way");
    /* No call waits for this put. */
    double before = used(thread), begun = seconds();
    MUST(host_put(&number, sizeof number, 0, 0, win));
    while (used(thread) == before && seconds() - begun < LONG) {
        nap(0.001);
    }
    CHECK(used(thread) > before, "it slept on while a put was under way");
    MUST(host_win_flush_all(win));
    CHECK(idle(thread) < 0.001, "it runs although nothing is under way any more");
    /* The get completes without progress of this thread. */
    host_request_t *request;
    MUST(host_rget(&back, sizeof back, 0, 0, win, &request));
    MUST(host_request_detach(&request, end, NULL));
    begun = seconds();
    while (!__atomic_load_n(&ended, __ATOMIC_ACQUIRE) && seconds() - begun < LONG) {
        nap(0.001);
    }
    CHECK(__atomic_load_n(&ended, __ATOMIC_ACQUIRE) && back == number, "it did not end a get");
    MUST(host_win_unlock_all(win));
    MUST(host_win_free(&win));
    return done("progress");
}
