/* Puts and gets of 4 MiB between windows in memory of CUDA devices, rank 0 to rank 1, beside a copy within the device and
 * the same through host memory (a dynamic window, whose memory is not opened). The bytes are compared. The times mean
 * something on a GPU only: the target is 0.8 of the copy. */
#include "device.h"

enum { SIZE = 4 << 20, TURNS = 50 };

static CUdeviceptr address(const Memory *of) { return (CUdeviceptr) of->at; }

static char *pattern(int salt)
{
    char *made = malloc(SIZE);
    CHECK(made, "malloc");
    for (size_t i = 0; i < SIZE; i++) made[i] = (char) (i * 7 + (i >> 9) + (size_t) salt);
    return made;
}

/* GB/s of the fastest turn. */
static double rate(double shortest) { return SIZE / shortest / 1e9; }

/* Rank 0 puts `out` to rank 1, and gets the earlier contents of rank 1. */
static void transfers(const char *what, MPI_Win win, MPI_Aint base, Memory *window, Memory *buffer, double copy_rate)
{
    char *theirs = pattern(1), *ours = pattern(2);
    double put = 1e9, get = 1e9;
    if (1 == world_rank) fill(window, 0, theirs, SIZE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == world_rank) {
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
        for (int turn = 0; turn < TURNS; turn++) {
            double begin = MPI_Wtime();
            MPI_Get(buffer->at, SIZE, MPI_BYTE, 1, base, SIZE, MPI_BYTE, win);
            MPI_Win_flush(1, win);
            double took = MPI_Wtime() - begin;
            if (took < get) get = took;
        }
        same("what was got", buffer, theirs);
        fill(buffer, 0, ours, SIZE);
        for (int turn = 0; turn < TURNS; turn++) {
            double begin = MPI_Wtime();
            MPI_Put(buffer->at, SIZE, MPI_BYTE, 1, base, SIZE, MPI_BYTE, win);
            MPI_Win_flush(1, win);
            double took = MPI_Wtime() - begin;
            if (took < put) put = took;
        }
        MPI_Win_unlock(1, win);
        printf("%s: put %.1f GB/s, get %.1f GB/s; %.2f and %.2f of the copy\n", what, rate(put), rate(get),
               rate(put) / copy_rate, rate(get) / copy_rate);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (1 == world_rank) same("what was put", window, ours);
    free(theirs);
    free(ours);
}

int main(int argc, char **argv)
{
    MPI_Win opened, staged;
    MPI_Aint base = 0;
    double shortest = 1e9;
    start(&argc, &argv, MPI_THREAD_SINGLE);
    begin_device();
    Memory window = memory(SIZE, 1), attached = memory(SIZE, 1), buffer = memory(SIZE, 1), other = memory(SIZE, 1);
    for (int turn = 0; turn < TURNS; turn++) {
        double begin = MPI_Wtime();
        copy(address(&other), address(&buffer), SIZE);
        double took = MPI_Wtime() - begin;
        if (took < shortest) shortest = took;
    }
    if (0 == world_rank) printf("a copy within the device: %.1f GB/s\n", rate(shortest));
    MPI_Win_create(window.at, SIZE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &opened);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &staged);
    MPI_Win_attach(staged, attached.at, SIZE);
    served(opened);
    served(staged);
    MPI_Get_address(attached.at, &base);
    MPI_Bcast(&base, 1, MPI_AINT, 1, MPI_COMM_WORLD);
    transfers("opened memory", opened, 0, &window, &buffer, rate(shortest));
    transfers("through host memory", staged, base, &attached, &buffer, rate(shortest));
    MPI_Win_free(&opened);
    MPI_Win_detach(staged, attached.at);
    MPI_Win_free(&staged);
    release(&window);
    release(&attached);
    release(&buffer);
    release(&other);
    end_device();
    finish("osc_opened");
    return 0;
}
