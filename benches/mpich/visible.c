/* Whether a put is at its target when the flush behind it returns, as MPI_Win_flush promises.
 *
 * Rank 1 stops making progress before each put, for a millisecond or until rank 0 tells it through memory of the node
 * that the flush has returned; then it looks at its window. A flush may wait for rank 1, and is then let go on. Prints how
 * many flushes returned while the bytes were not there, and how many waited.
 *
 * Usage: visible FILE, the file being empty or missing and on this node */
#include <mpi.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 200 };

typedef struct {
    _Atomic uint64_t still, told, heard;
} note_t;

static note_t *open_note(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof(note_t)) != 0) {
        perror(path);
        exit(2);
    }
    void *note = mmap(NULL, sizeof(note_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (note == MAP_FAILED) {
        perror(path);
        exit(2);
    }
    return note;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

static void progress(void)
{
    int flag;
    MPI_Iprobe(0, 77, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int rank, given, early = 0, waited = 0;
    MPI_Win win;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 2) {
        fprintf(stderr, "visible: give it a file\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    note_t *note = open_note(argv[1]);
    uint64_t *word = aligned_alloc(4096, 4096), value;
    *word = 0;
    MPI_Win_create(word, 4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_lock_all(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (uint64_t round = 1; round <= ROUNDS; ++round) {
        if (rank == 0) {
            value = round;
            while (atomic_load(&note->still) < round) {
                progress();
            }
            MPI_Put(&value, 8, MPI_BYTE, 1, 0, 8, MPI_BYTE, win);
            MPI_Win_flush(1, win);
            atomic_store(&note->told, round);
            while (atomic_load(&note->heard) < round) {
            }
        } else {
            atomic_store(&note->still, round);
            double begin = now();
            while (atomic_load(&note->told) < round && now() - begin < 1e-3) {
            }
            if (atomic_load(&note->told) == round) {
                early += *(volatile uint64_t *) word != round;
            } else {
                ++waited;
                while (atomic_load(&note->told) < round) {
                    progress();
                }
            }
            atomic_store(&note->heard, round);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        printf("flushes_before_the_bytes 8 1 %d of_%d\n", early, ROUNDS);
        printf("flushes_that_waited 8 1 %d of_%d\n", waited, ROUNDS);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Finalize();
    free(word);
    return 0;
}
