/* The floor of every transport within a node: two processes, memory that both have mapped, and no transport.
 *
 * Prints rma_bench's lines. What needs the other process (a message, a put until it is seen) is a cache line that goes to
 * its processor and back, halved. What needs only its memory is the plain instruction: a store and a full fence, a load, a locked
 * instruction, memcpy.
 *
 * Usage: node_floor all|quick LARGEST */
#include "job_clock.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { LARGEST = 64 << 20, BATCHES = 200, BURST = 64 };

struct shared {
    _Alignas(128) _Atomic int64_t ball;
    _Alignas(128) _Atomic int64_t word;
    _Alignas(4096) char bytes[LARGEST];
};

static struct shared *shared;
static char local[LARGEST];

static int ascending(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static void put(size_t size)
{
    (void) size;
    atomic_store_explicit(&shared->word, 7, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
}

static void puts_and_fence(size_t size)
{
    for (size_t i = 0; i < BURST; ++i) {
        *(volatile int64_t *) (shared->bytes + i % 8 * size) = (int64_t) i;
    }
    atomic_thread_fence(memory_order_seq_cst);
}

static void get(size_t size)
{
    (void) size;
    (void) atomic_load_explicit(&shared->word, memory_order_acquire);
}

static void fetch_add(size_t size)
{
    (void) size;
    /* Without a use of its result it would be another instruction. */
    *(volatile int64_t *) local = atomic_fetch_add(&shared->word, 1);
}

static void compare_swap(size_t size)
{
    int64_t expected = (int64_t) size;
    (void) atomic_compare_exchange_strong(&shared->word, &expected, 1);
}

static void copy_in(size_t size)
{
    memcpy(shared->bytes, local, size);
    __asm__ volatile("" ::: "memory");
}

static void copy_out(size_t size)
{
    memcpy(local, shared->bytes, size);
    __asm__ volatile("" ::: "memory");
}

/* The ball goes to the other process, which throws it back. */
static void round_trip(size_t size)
{
    (void) size;
    int64_t next = atomic_load_explicit(&shared->ball, memory_order_relaxed) + 1;
    atomic_store_explicit(&shared->ball, next, memory_order_release);
    while (atomic_load_explicit(&shared->ball, memory_order_acquire) != next + 1) {
    }
}

static void throw_back(void)
{
    for (;;) {
        int64_t now = atomic_load_explicit(&shared->ball, memory_order_acquire);
        if (now % 2) {
            atomic_store_explicit(&shared->ball, now + 1, memory_order_release);
        }
    }
}

/* Seconds of one call, the median of batches. */
static double measure(void (*call)(size_t), size_t size)
{
    static double batch[BATCHES];
    int calls = size > 1 << 20 ? 1 : size > 4096 ? 20 : 2000, n;
    double start = now();
    for (n = 0; n < BATCHES && (!n || now() - start < 0.4); ++n) {
        double begin = now();
        for (int i = 0; i < calls; ++i) {
            call(size);
        }
        batch[n] = (now() - begin) / calls;
    }
    qsort(batch, (size_t) n, sizeof(*batch), ascending);
    return batch[n / 2];
}

int main(int argc, char **argv)
{
    size_t largest = argc > 2 ? (size_t) atoll(argv[2]) : LARGEST;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("node_floor: mmap");
        return 1;
    }
    memset(shared->bytes, 1, LARGEST);
    memset(local, 1, LARGEST);
    pid_t other = fork();
    if (other == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pin(1);
        throw_back();
    }
    if (other < 0) {
        perror("node_floor: fork");
        return 1;
    }
    pin(0);
    double seen = measure(round_trip, 8) / 2;
    report("put_seen_latency", 8, 1, seen * 1e6, "us");
    report("send_latency", 8, 1, seen * 1e6, "us");
    report("put_latency", 8, 1, measure(put, 8) * 1e6, "us");
    report("get_latency", 8, 1, measure(get, 8) * 1e6, "us");
    report("fetch_op_latency", 8, 1, measure(fetch_add, 8) * 1e6, "us");
    report("compare_swap_latency", 8, 1, measure(compare_swap, 8) * 1e6, "us");
    report("accumulate_latency", 8, 1, measure(fetch_add, 8) * 1e6, "us");
    report("put_rate", 8, 1, BURST / measure(puts_and_fence, 8) / 1e6, "Mop/s");
    for (size_t size = 1 << 10; size <= LARGEST && size <= largest; size *= 4) {
        report("put_bandwidth", size, 1, (double) size / measure(copy_in, size) / 1e6, "MB/s");
        report("get_bandwidth", size, 1, (double) size / measure(copy_out, size) / 1e6, "MB/s");
    }
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    return 0;
}
