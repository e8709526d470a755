/* A rank that has waited for long sleeps between its checks. Operations of another rank that need this rank's
 * progress wake it, so each does not wait for the next check. Rank 0 counts how often the other rank sleeps
 * meanwhile: in a barrier, or, with the argument `thread`, in its progress thread while its program
 * computes. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "example.h"

enum { WORDS = 64, TIMES = 200, BYTES = 65536, DEVICE_TIMES = 20, TRIES = 5 };
enum { COUNTER, PROCESS, GO_ON };

static int status_of_other; /* the thread's file in /proc, opened once: the other rank may sleep during the search */

/* Opens the status of a process's thread with the given name, or of its first thread. */
static void find(long process, const char *name) {
    char path[512], line[256];
    long thread = process;
    snprintf(path, sizeof path, "/proc/%ld/task", process);
    DIR *threads = opendir(path);
    EXPECT(threads);
    for (struct dirent *entry; name && (entry = readdir(threads));) {
        snprintf(path, sizeof path, "/proc/%ld/task/%.32s/comm", process, entry->d_name);
        FILE *file = fopen(path, "r");
        if (file && fgets(line, sizeof line, file) && strncmp(line, name, strlen(name)) == 0)
            thread = atol(entry->d_name);
        if (file)
            fclose(file);
    }
    closedir(threads);
    EXPECT(!name || thread != process);
    snprintf(path, sizeof path, "/proc/%ld/task/%ld/status", process, thread);
    status_of_other = open(path, O_RDONLY | O_CLOEXEC);
    EXPECT(status_of_other >= 0);
}

/* The number of times that the thread has slept until now. */
static long sleeps(void) {
    static const char field[] = "\nvoluntary_ctxt_switches:";
    char text[8192];
    ssize_t size = pread(status_of_other, text, sizeof text - 1, 0);
    EXPECT(size > 0);
    text[size] = 0;
    const char *found = strstr(text, field);
    EXPECT(found);
    return atol(found + sizeof field - 1);
}

/* If ranks outnumber processors, a waiting rank sleeps between its checks. */
static int enough_processors(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) >= host_size();
}

/* Rank 0 operates on the other rank's memory. If the other rank found each operation only at its next check,
 * it would sleep during all of them. If other programs keep the ranks from their processors, the other rank
 * may sleep during most operations. */
static void ask(host_win_t *win, host_win_t *device, const char *name) {
    uint64_t one = 1, got = 0, process = 0, counted = 0;
    static char bytes[BYTES];
    int slept = 0, tries = 0;
    MUST(host_get(&process, 8, 1, PROCESS, win));
    MUST(host_win_flush(1, win));
    find((long)process, name);
    do {
        usleep(100000); /* the other rank has waited for long */
        slept = 0;
        for (int i = 0; i < TIMES; i++) {
            long before = sleeps();
            MUST(host_fetch_and_op(&one, &got, HOST_UINT64, HOST_SUM, 1, COUNTER, win));
            MUST(host_win_flush(1, win));
            EXPECT(got == counted++);
            slept += sleeps() != before;
        }
        fprintf(stderr, "slept during %d of %d operations\n", slept, TIMES);
    } while (slept >= TIMES * 9 / 10 && ++tries < TRIES);
    EXPECT(tries < TRIES || !enough_processors());
    /* Beside a progress thread the other rank may sleep: it does not see transfers of the provider as
     * requests. */
    if (device == NULL || name)
        return;
    usleep(100000);
    slept = 0;
    for (int i = 0; i < DEVICE_TIMES; i++) {
        long before = sleeps();
        MUST(host_put(bytes, BYTES, 1, 0, device));
        MUST(host_win_flush(1, device));
        slept += sleeps() != before;
    }
    fprintf(stderr, "slept during %d of %d operations on a device\n", slept, DEVICE_TIMES);
    EXPECT(slept < DEVICE_TIMES * 9 / 10 || !enough_processors());
}

int main(int argc, char **argv) {
    const char *thread = argc > 1 && strcmp(argv[1], "thread") == 0 ? "host-progress" : NULL;
    uint64_t yes = 1, *words = calloc(WORDS, sizeof *words);
    host_comm_t *world = NULL;
    host_win_t *win = NULL, *device = NULL;
    MUST(host_init());
    MUST(host_comm_world(&world));
    words[PROCESS] = (uint64_t)getpid();
    /* The other rank cannot map this memory, so this process executes the updates. */
    MUST(host_win_create_over(world, words, WORDS * sizeof *words, 8, NULL, &win));
    MUST(host_win_lock_all(win));
    if (host_device_count() > 0) {
        host_info_t *info = NULL;
        MUST(host_info_create(&info));
        MUST(host_info_set(info, "device_num", "0"));
        MUST(host_win_allocate_over(world, BYTES, 1, info, &device));
        MUST(host_info_free(&info));
        MUST(host_win_lock_all(device));
    }
    MUST(host_comm_barrier(world));
    if (host_rank() == 0) {
        ask(win, device, thread);
        MUST(host_put(&yes, 8, 1, GO_ON, win));
        MUST(host_win_flush(1, win));
    } else if (thread) {
        while (__atomic_load_n(&words[GO_ON], __ATOMIC_ACQUIRE) == 0)
            usleep(1000);
    }
    MUST(host_comm_barrier(world));
    if (device) {
        MUST(host_win_unlock_all(device));
        MUST(host_win_free(&device));
    }
    MUST(host_win_unlock_all(win));
    MUST(host_win_free(&win));
    MUST(host_finalize());
    free(words);
    printf("passed\n");
    return 0;
}
