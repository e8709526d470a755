/* Rates of one-sided operations that threads of rank 0 make towards rank 1, as RMA-MT measures them: under
 * MPI_THREAD_MULTIPLE, with a window for each thread or one for all, BURST puts or gets of each thread and a flush, or a flush
 * behind each put.
 *
 * A rate is the operations of all threads over the time of all; the median of a few rounds. Each thread works on its own
 * bytes at the target, and the last put of each thread is checked there.
 *
 * Usage: rma_mt THREADS,... (numbers of threads, with commas) */
#include "job.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

enum { BURST = 64, ROUNDS = 3, MAX_THREADS = 16, APART = 4096 };

static const double budget = 0.06; /* seconds of a round */

enum kind { PUT, GET, PUT_FLUSH, KINDS };

static const char *const names[KINDS] = {"put_rate", "get_rate", "put_flush_rate"};

static int rank;
static char *memory;
static MPI_Win windows[MAX_THREADS];
static pthread_barrier_t together;
static atomic_int over;

struct work {
    enum kind kind;
    int number; /* of the thread */
    MPI_Win win;
    int64_t mine[8]; /* a separate cache line: the bytes of puts and gets */
    long done;
} __attribute__((aligned(64)));

static void *thread(void *arg)
{
    struct work *work = arg;
    MPI_Aint place = (MPI_Aint) work->number * APART;
    pin(work->number);
    pthread_barrier_wait(&together);
    for (work->done = 0; !atomic_load_explicit(&over, memory_order_relaxed); work->done += BURST) {
        for (int i = 0; i < BURST; ++i) {
            if (work->kind == GET) {
                MPI_Get(&work->mine[1], 1, MPI_INT64_T, 1, place, 1, MPI_INT64_T, work->win);
            } else {
                MPI_Put(&work->mine[0], 1, MPI_INT64_T, 1, place, 1, MPI_INT64_T, work->win);
            }
            if (work->kind == PUT_FLUSH) {
                MPI_Win_flush(1, work->win);
            }
        }
        MPI_Win_flush(1, work->win);
    }
    return NULL;
}

/* Operations a second of one round. */
static double round_of(enum kind kind, int threads, int own, int64_t word)
{
    static struct work work[MAX_THREADS];
    pthread_t ids[MAX_THREADS];
    long done = 0;
    atomic_store(&over, 0);
    pthread_barrier_init(&together, NULL, (unsigned) threads + 1);
    for (int i = 0; i < threads; ++i) {
        work[i] = (struct work) {.kind = kind, .number = i, .win = windows[own ? i : 0], .mine = {word + i}};
        if (pthread_create(&ids[i], NULL, thread, &work[i])) {
            stop("rma_mt: no thread");
        }
    }
    pthread_barrier_wait(&together);
    double begin = now();
    struct timespec pause = {0, (long) (budget * 1e9)};
    nanosleep(&pause, NULL);
    atomic_store(&over, 1);
    for (int i = 0; i < threads; ++i) {
        pthread_join(ids[i], NULL);
        done += work[i].done;
    }
    double seconds = now() - begin;
    pthread_barrier_destroy(&together);
    /* Reads each thread's put back through the window. */
    for (int i = 0; i < threads && kind != GET; ++i) {
        int64_t word_there = 0;
        MPI_Get(&word_there, 1, MPI_INT64_T, 1, (MPI_Aint) i * APART, 1, MPI_INT64_T, windows[own ? i : 0]);
        MPI_Win_flush(1, windows[own ? i : 0]);
        if (word_there != word + i) {
            stop("rma_mt: a put did not arrive");
        }
    }
    return (double) done / seconds;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static void measure(enum kind kind, int threads, int own)
{
    static int64_t word = 1;
    double rates[ROUNDS];
    char name[64];
    for (int i = 0; i < ROUNDS; ++i, word += MAX_THREADS) {
        rates[i] = round_of(kind, threads, own, word);
    }
    qsort(rates, ROUNDS, sizeof(*rates), ascending);
    snprintf(name, sizeof(name), "%s_%s", names[kind], own ? "own" : "shared");
    report(name, sizeof(int64_t), threads, rates[ROUNDS / 2] / 1e6, "Mop/s");
}

int main(int argc, char **argv)
{
    int given, size;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 2 || size != 2) {
        stop("usage: rma_mt THREADS,... with 2 ranks");
    }
    if (given != MPI_THREAD_MULTIPLE) {
        stop("rma_mt: this MPI has no MPI_THREAD_MULTIPLE");
    }
    memory = aligned_alloc(APART, (size_t) MAX_THREADS * APART);
    if (!memory) {
        stop("rma_mt: no memory");
    }
    memset(memory, 0, (size_t) MAX_THREADS * APART);
    for (int i = 0; i < MAX_THREADS; ++i) {
        MPI_Win_create(memory, (MPI_Aint) MAX_THREADS * APART, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &windows[i]);
        MPI_Win_lock_all(0, windows[i]);
    }
    /* The target makes progress on its own processor. */
    pin(1);
    MPI_Barrier(MPI_COMM_WORLD);
    for (char *list = argv[1]; 0 == rank && *list;) {
        int threads = (int) strtol(list, &list, 10);
        list += *list == ',';
        if (threads < 1 || threads > MAX_THREADS) {
            stop("rma_mt: 1 to 16 threads");
        }
        for (int kind = 0; kind < KINDS; ++kind) {
            measure((enum kind) kind, threads, 1);
            measure((enum kind) kind, threads, 0);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < MAX_THREADS; ++i) {
        MPI_Win_unlock_all(windows[i]);
        MPI_Win_free(&windows[i]);
    }
    MPI_Finalize();
    free(memory);
    return 0;
}
