/* Every call of a window with memory of a CUDA device: windows of each flavour with memory on the device, on
 * the host, and on both, and buffers on each. The bytes of the window and of the buffers are compared with
 * the results of the same calls on host memory. */
#include <complex.h>
#include <stddef.h>

#include "device.h"

enum {
    LARGE = (5 << 19) + 13, /* several fragments of a staged transfer */
    WHOLE = 3 << 20,
    FIRST = 16, /* displacements: a few bytes, large, rows, places */
    MANY = 4096,
    ROWS = MANY + LARGE + 3,
    PLACES = ROWS + (16 << 10),
};

typedef struct {
    const char *name;
    MPI_Win win;
    Memory memory;
    MPI_Aint *bases; /* the base address of each rank, to which displacements are added */
} Window;

static int on_device; /* whether buffers are on the device */

static char pattern(int rank, size_t i, int salt)
{
    return (char) (i * 7 + (i >> 8) * 13 + (size_t) rank * 31 + (size_t) salt);
}

static char *bytes(int rank, size_t size, int salt)
{
    char *made = malloc(size);
    CHECK(made, "malloc");
    for (size_t i = 0; i < size; i++) made[i] = pattern(rank, i, salt);
    return made;
}

static Memory filled(size_t size, const void *with)
{
    Memory made = memory(size, on_device);
    fill(&made, 0, with, size);
    return made;
}

static MPI_Aint at(const Window *w, int rank, size_t offset)
{
    return w->bases[rank] + (MPI_Aint) offset;
}

/* Blocks of 5 bytes every 12 bytes, and blocks at irregular distances. */
static void types(MPI_Datatype *rows, MPI_Datatype *places)
{
    int lengths[4] = {3, 1, 6, 90}, where[4] = {1, 10, 12, 300};
    MPI_Type_vector(700, 5, 12, MPI_BYTE, rows);
    MPI_Type_commit(rows);
    MPI_Type_indexed(4, lengths, where, MPI_BYTE, places);
    MPI_Type_commit(places);
}

/* Converts packed bytes to the elements of the type, or back. */
static void spread(char *image, const char *packed, MPI_Datatype type)
{
    int size, position = 0;
    MPI_Type_size(type, &size);
    MPI_Unpack(packed, size, &position, image, 1, type, MPI_COMM_SELF);
}

/* The expected memory of a rank after `transfers`. */
static char *transferred(int rank)
{
    char *image = bytes(rank, WHOLE, 1), *out = bytes((rank + world_size - 1) % world_size, WHOLE, 2);
    MPI_Datatype rows, places;
    types(&rows, &places);
    memcpy(image + FIRST, out + 8, 1000);
    memcpy(image + MANY, out, LARGE);
    spread(image + ROWS, out + 5, rows);
    char *packed = malloc(100);
    int position = 0;
    MPI_Pack(out + 9, 1, places, packed, 100, &position, MPI_COMM_SELF);
    CHECK(100 == position, "%d", position);
    spread(image + PLACES, packed, places);
    /* Operations with requests. */
    memcpy(image + PLACES + 5000, out + 77, 333);
    free(packed);
    free(out);
    MPI_Type_free(&rows);
    MPI_Type_free(&places);
    return image;
}

static void transfers(Window *w)
{
    char *mine = bytes(world_rank, WHOLE, 1), *data = bytes(world_rank, WHOLE, 2), *zeros = calloc(1, WHOLE);
    fill(&w->memory, 0, mine, WHOLE);
    Memory out = filled(WHOLE, data), in = filled(WHOLE, zeros), few = filled(WHOLE, zeros);
    MPI_Datatype rows, places;
    types(&rows, &places);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, w->win);
    MPI_Put(out.at + 8, 1000, MPI_BYTE, next, at(w, next, FIRST), 1000, MPI_BYTE, w->win);
    MPI_Put(out.at, LARGE, MPI_BYTE, next, at(w, next, MANY), LARGE, MPI_BYTE, w->win);
    MPI_Put(out.at + 5, 3500, MPI_BYTE, next, at(w, next, ROWS), 1, rows, w->win);
    MPI_Put(out.at + 9, 1, places, next, at(w, next, PLACES), 1, places, w->win);
    MPI_Request request;
    MPI_Rput(out.at + 77, 333, MPI_BYTE, next, at(w, next, PLACES + 5000), 333, MPI_BYTE, w->win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_flush(next, w->win);
    MPI_Get(in.at, WHOLE, MPI_BYTE, next, at(w, next, 0), WHOLE, MPI_BYTE, w->win);
    MPI_Get(few.at + 100, 1, rows, next, at(w, next, 40), 3500, MPI_BYTE, w->win);
    MPI_Win_flush(next, w->win);
    MPI_Rget(few.at + 50000, 100, MPI_BYTE, next, at(w, next, PLACES), 1, places, w->win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    /* A rank's own memory, to which no rank puts. */
    MPI_Get(few.at + 60000, 64, MPI_BYTE, world_rank, at(w, world_rank, PLACES + 9000), 64, MPI_BYTE, w->win);
    MPI_Win_unlock_all(w->win);
    MPI_Barrier(MPI_COMM_WORLD);
    char *here = transferred(world_rank), *there = transferred(next);
    same("the window", &w->memory, here);
    same("what was got", &in, there);
    same("what was put", &out, data);
    spread(zeros + 100, there + 40, rows);
    int position = 0;
    MPI_Pack(there + PLACES, 1, places, zeros + 50000, 100, &position, MPI_COMM_SELF);
    memcpy(zeros + 60000, here + PLACES + 9000, 64);
    same("what was got in places", &few, zeros);
    MPI_Type_free(&rows);
    MPI_Type_free(&places);
    release(&out);
    release(&in);
    release(&few);
    free(mine);
    free(data);
    free(zeros);
    free(here);
    free(there);
}

typedef struct { double value; int place; } Pair;

/* The elements that accumulates change; the fetched values lie in an equal structure. */
typedef struct {
    int64_t sums[300], strided[64], fetched, swapped, requested, odd;
    double doubles[40];
    float floats[5];
    int16_t shorts[9];
    Pair pairs[3];
    double complex complexes[2];
    long double wides[2];
} Elements;

static void elements(Elements *of, int rank, int salt)
{
    memset(of, 0, sizeof *of);
    for (int i = 0; i < 300; i++) of->sums[i] = rank * 1000 + i * salt;
    for (int i = 0; i < 64; i++) of->strided[i] = rank * 77 + i + salt;
    for (int i = 0; i < 40; i++) of->doubles[i] = rank + i * 0.5 * salt;
    for (int i = 0; i < 5; i++) of->floats[i] = (float) (rank + i + salt);
    for (int i = 0; i < 9; i++) of->shorts[i] = (int16_t) (rank + i * salt);
    for (int i = 0; i < 3; i++) {
        of->pairs[i].value = (rank * 3 + i + salt) % 5;
        of->pairs[i].place = rank + i + salt;
    }
    of->fetched = rank + salt;
    of->swapped = rank + 5;
    of->requested = rank + 2 * salt;
    of->odd = 3 + rank;
    of->complexes[0] = 1 + rank * I;
    of->complexes[1] = salt + 2 * I;
    for (int i = 0; i < 2; i++) memset(of->wides + i, 0, sizeof of->wides[i]);
    of->wides[0] = rank + 0.25L;
    of->wides[1] = salt;
}

#define AT(member) offsetof(Elements, member)

/* The effect of `accumulates` on the elements of a rank, and the values that the previous
 * rank fetches. */
static void accumulated(Elements *of, Elements *old, int rank)
{
    int from = (rank + world_size - 1) % world_size;
    Elements by;
    elements(of, rank, 3);
    elements(&by, from, 4);
    memset(old, 0, sizeof *old);
    for (int i = 0; i < 300; i++) of->sums[i] += by.sums[i];
    for (int i = 0; i < 64; i += 4) of->strided[i] += by.strided[i];
    for (int i = 0; i < 40; i++) {
        old->doubles[i] = of->doubles[i];
        of->doubles[i] *= by.doubles[i];
    }
    for (int i = 0; i < 5; i++) {
        old->floats[i] = of->floats[i];
    }
    for (int i = 0; i < 9; i++)
        if (by.shorts[i] > of->shorts[i]) of->shorts[i] = by.shorts[i];
    for (int i = 0; i < 3; i++) {
        /* The bytes between the values of an element are undefined. */
        old->pairs[i].value = of->pairs[i].value;
        old->pairs[i].place = of->pairs[i].place;
        if (by.pairs[i].value < of->pairs[i].value ||
            (by.pairs[i].value == of->pairs[i].value && by.pairs[i].place < of->pairs[i].place))
            of->pairs[i] = by.pairs[i];
    }
    for (int i = 0; i < 2; i++) of->complexes[i] += by.complexes[i];
    for (int i = 0; i < 2; i++) old->complexes[i] = of->complexes[i];
    old->fetched = of->fetched;
    of->fetched ^= by.fetched;
    old->swapped = of->swapped;
    of->swapped = by.swapped;
    old->requested = of->requested;
    of->requested = by.requested;
    of->odd += by.odd;
    of->wides[0] += by.wides[0];
}

static void accumulates(Window *w)
{
    Elements mine, data, none;
    elements(&mine, world_rank, 3);
    elements(&data, world_rank, 4);
    memset(&none, 0, sizeof none);
    fill(&w->memory, 0, &mine, sizeof mine);
    Memory out = filled(sizeof data, &data), in = filled(sizeof none, &none), compared;
    int64_t there = next + 5;
    compared = filled(sizeof there, &there);
    MPI_Datatype strided;
    MPI_Type_vector(16, 1, 4, MPI_INT64_T, &strided);
    MPI_Type_commit(&strided);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, w->win);
#define PLACE(member) next, at(w, next, AT(member))
    MPI_Accumulate(out.at + AT(sums), 300, MPI_INT64_T, PLACE(sums), 300, MPI_INT64_T, MPI_SUM, w->win);
    MPI_Accumulate(out.at + AT(strided), 1, strided, PLACE(strided), 1, strided, MPI_SUM, w->win);
    MPI_Get_accumulate(out.at + AT(doubles), 40, MPI_DOUBLE, in.at + AT(doubles), 40, MPI_DOUBLE, PLACE(doubles), 40, MPI_DOUBLE, MPI_PROD,
                       w->win);
    MPI_Get_accumulate(NULL, 0, MPI_FLOAT, in.at + AT(floats), 5, MPI_FLOAT, PLACE(floats), 5, MPI_FLOAT, MPI_NO_OP, w->win);
    MPI_Accumulate(out.at + AT(shorts), 9, MPI_INT16_T, PLACE(shorts), 9, MPI_INT16_T, MPI_MAX, w->win);
    MPI_Get_accumulate(out.at + AT(pairs), 3, MPI_DOUBLE_INT, in.at + AT(pairs), 3, MPI_DOUBLE_INT, PLACE(pairs), 3, MPI_DOUBLE_INT, MPI_MINLOC,
                       w->win);
    MPI_Accumulate(out.at + AT(complexes), 2, MPI_C_DOUBLE_COMPLEX, PLACE(complexes), 2, MPI_C_DOUBLE_COMPLEX, MPI_SUM, w->win);
    MPI_Get_accumulate(NULL, 0, MPI_BYTE, in.at + AT(complexes), 2, MPI_C_DOUBLE_COMPLEX, PLACE(complexes), 2, MPI_C_DOUBLE_COMPLEX, MPI_NO_OP,
                       w->win);
    MPI_Fetch_and_op(out.at + AT(fetched), in.at + AT(fetched), MPI_INT64_T, PLACE(fetched), MPI_BXOR, w->win);
    MPI_Compare_and_swap(out.at + AT(swapped), compared.at, in.at + AT(swapped), MPI_INT64_T, PLACE(swapped), w->win);
    MPI_Request requests[3];
    MPI_Rget_accumulate(out.at + AT(requested), 1, MPI_INT64_T, in.at + AT(requested), 1, MPI_INT64_T, PLACE(requested), 1, MPI_INT64_T,
                        MPI_REPLACE, w->win, requests);
    MPI_Raccumulate(out.at + AT(odd), 1, MPI_INT64_T, PLACE(odd), 1, MPI_INT64_T, MPI_SUM, w->win, requests + 1);
    MPI_Raccumulate(out.at + AT(wides), 1, MPI_LONG_DOUBLE, PLACE(wides), 1, MPI_LONG_DOUBLE, MPI_SUM, w->win, requests + 2);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    MPI_Win_unlock_all(w->win);
    MPI_Barrier(MPI_COMM_WORLD);
    Elements wanted, old, unused, found;
    accumulated(&wanted, &unused, world_rank);
    take(&w->memory, 0, &found, sizeof found);
    /* Long doubles have padding bytes. */
    CHECK(found.wides[0] == wanted.wides[0] && found.wides[1] == wanted.wides[1], "%Lg", found.wides[0]);
    CHECK(0 == memcmp(&found, &wanted, AT(pairs)), "the window's elements");
    for (int i = 0; i < 3; i++)
        CHECK(found.pairs[i].value == wanted.pairs[i].value && found.pairs[i].place == wanted.pairs[i].place, "%g %d, not %g %d",
              found.pairs[i].value, found.pairs[i].place, wanted.pairs[i].value, wanted.pairs[i].place);
    CHECK(0 == memcmp(found.complexes, wanted.complexes, sizeof found.complexes), "complex numbers");
    accumulated(&unused, &old, next);
    take(&in, 0, &found, sizeof found);
    CHECK(0 == memcmp(&found, &old, AT(pairs)), "what was fetched");
    for (int i = 0; i < 3; i++)
        CHECK(found.pairs[i].value == old.pairs[i].value && found.pairs[i].place == old.pairs[i].place, "fetched %g %d", found.pairs[i].value,
              found.pairs[i].place);
    CHECK(0 == memcmp(found.complexes, old.complexes, sizeof found.complexes), "complex numbers that were fetched");
    take(&out, 0, &found, sizeof found);
    CHECK(0 == memcmp(&found, &data, sizeof data), "operands");
    MPI_Type_free(&strided);
    release(&out);
    release(&in);
    release(&compared);
}

/* All ranks accumulate on the same elements, between fences. */
static void together(Window *w)
{
    enum { TIMES = 40 };
    int64_t none[64] = {0}, ones[64], found[64];
    long double wide = 1, sum = 0;
    for (int i = 0; i < 64; i++) ones[i] = 1;
    fill(&w->memory, 0, none, sizeof none);
    fill(&w->memory, 1024, &sum, sizeof sum);
    Memory out = filled(sizeof ones, ones), one = filled(sizeof wide, &wide);
    MPI_Win_fence(0, w->win);
    for (int i = 0; i < TIMES; i++) {
        MPI_Accumulate(out.at, 64, MPI_INT64_T, 0, at(w, 0, 0), 64, MPI_INT64_T, MPI_SUM, w->win);
        MPI_Accumulate(one.at, 1, MPI_LONG_DOUBLE, 0, at(w, 0, 1024), 1, MPI_LONG_DOUBLE, MPI_SUM, w->win);
    }
    MPI_Win_fence(0, w->win);
    if (world_rank == 0) {
        take(&w->memory, 0, found, sizeof found);
        take(&w->memory, 1024, &sum, sizeof sum);
        for (int i = 0; i < 64; i++) CHECK(found[i] == TIMES * world_size, "%ld", (long) found[i]);
        CHECK(sum == TIMES * world_size, "%Lg", sum);
    }
    MPI_Win_fence(0, w->win);
    release(&out);
    release(&one);
}

/* A type whose parts lie on the host and on the device, named by their addresses. */
static void mixed(Window *w)
{
    char *data = bytes(world_rank, 3000, 6), *mine = bytes(world_rank, WHOLE, 7), *found = malloc(3000);
    Memory parts[3];
    MPI_Aint places[3];
    int lengths[3] = {1000, 1000, 1000};
    for (int i = 0; i < 3; i++) {
        parts[i] = memory(1000, (on_device + i) % 2);
        fill(parts + i, 0, data + 1000 * i, 1000);
        MPI_Get_address(parts[i].at, places + i);
    }
    MPI_Datatype type;
    MPI_Type_create_hindexed(3, lengths, places, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    fill(&w->memory, 0, mine, WHOLE);
    MPI_Win_fence(0, w->win);
    MPI_Put(MPI_BOTTOM, 1, type, next, at(w, next, 100), 3000, MPI_BYTE, w->win);
    MPI_Win_fence(0, w->win);
    char *theirs = bytes(last, 3000, 6);
    memcpy(mine + 100, theirs, 3000);
    same("the window", &w->memory, mine);
    MPI_Win_fence(0, w->win);
    MPI_Get(MPI_BOTTOM, 1, type, next, at(w, next, 5000), 3000, MPI_BYTE, w->win);
    MPI_Win_fence(0, w->win);
    char *others = bytes(next, WHOLE, 7);
    for (int i = 0; i < 3; i++) take(parts + i, 0, found + 1000 * i, 1000);
    CHECK(0 == memcmp(found, others + 5000, 3000), "what was got in parts");
    MPI_Accumulate(MPI_BOTTOM, 1, type, next, at(w, next, 8000), 3000, MPI_BYTE, MPI_BXOR, w->win);
    MPI_Win_fence(0, w->win);
    /* The operands are the bytes that the previous rank got from here. */
    for (int i = 0; i < 3000; i++) mine[8000 + i] ^= pattern(world_rank, (size_t) (5000 + i), 7);
    same("the window", &w->memory, mine);
    for (int i = 0; i < 3; i++) release(parts + i);
    MPI_Type_free(&type);
    free(data);
    free(mine);
    free(found);
    free(theirs);
    free(others);
}

static void calls(Window *w)
{
    served(w->win);
    for (on_device = 0; on_device < 2; on_device++) {
        transfers(w);
        accumulates(w);
        together(w);
        mixed(w);
    }
    if (world_rank == 0) fprintf(stderr, "osc_device: %s\n", w->name);
}

static MPI_Info device_number(int number)
{
    char text[16];
    MPI_Info info;
    MPI_Info_create(&info);
    snprintf(text, sizeof text, "%d", number);
    MPI_Info_set(info, "device_num", text);
    return info;
}

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    begin_device();
    MPI_Aint *zero = calloc((size_t) world_size, sizeof *zero), *bases = calloc((size_t) world_size, sizeof *bases);
    const char *of_program[3] = {"the host's, of the program", "the device's, of the program", "some on the device, of the program"};
    for (int kind = 0; kind < 3; kind++) {
        Window w = {of_program[kind], MPI_WIN_NULL, memory(WHOLE, kind == 2 ? world_rank % 2 : kind), zero};
        MPI_Win_create(w.memory.at, WHOLE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w.win);
        calls(&w);
        MPI_Win_free(&w.win);
        release(&w.memory);
    }
    const char *of_window[3] = {"the host's, of the window", "the device's, of the window", "some on the device, of the window"};
    for (int kind = 0; kind < 3; kind++) {
        Window w = {of_window[kind], MPI_WIN_NULL, {NULL, WHOLE, kind == 2 ? world_rank % 2 : kind}, zero};
        MPI_Info info = device_number(w.memory.on_device ? 0 : -1);
        MPI_Win_allocate(WHOLE, 1, info, MPI_COMM_WORLD, &w.memory.at, &w.win);
        MPI_Info_free(&info);
        calls(&w);
        MPI_Win_free(&w.win);
    }
    for (int kind = 0; kind < 2; kind++) {
        Window w = {kind ? "the device's, attached" : "the host's, attached", MPI_WIN_NULL, memory(WHOLE, kind), bases};
        MPI_Aint own;
        MPI_Get_address(w.memory.at, &own);
        MPI_Allgather(&own, 1, MPI_AINT, bases, 1, MPI_AINT, MPI_COMM_WORLD);
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &w.win);
        MPI_Win_attach(w.win, w.memory.at, WHOLE);
        MPI_Barrier(MPI_COMM_WORLD);
        calls(&w);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_detach(w.win, w.memory.at);
        MPI_Win_free(&w.win);
        release(&w.memory);
    }
    free(zero);
    free(bases);
    end_device();
    finish("osc_device");
}
