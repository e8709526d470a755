/* Random operations on windows of the component osc against a model: osc_random SEED ROUNDS. In the memory of
 * each rank, every other rank has its own part and knows the value of each of its words. Therefore each
 * fetched value, and each word at the end of a round, has exactly one correct value. Counters that all ranks
 * increment must equal the sum of all increments. The program overwrites buffers as soon as MPI permits.
 *
 * MPI orders only accumulates of one rank to one place. A put or get therefore never accesses a word that was
 * accessed since the last flush, and an accumulate never accesses a word that a put or get has accessed. */
#include "check.h"

enum {
    WORDS = 96,            /* words of a zone */
    ZONES = 4,             /* int64, double, int32 in pairs, int64 at odd addresses */
    PART = (ZONES * WORDS + 1) * 8,
    COUNTERS = 4,
    MOST = 16,             /* maximum words of an operation */
    PENDING = 64,
    OPERATIONS = 60,       /* maximum operations of an epoch */
};

typedef enum { LOCK_ALL, LOCK, FENCE, GROUPS, EPOCHS } Epoch;
typedef enum { CLEAN, MOVED, ADDED } Touch;

static MPI_Win win;
static char *memory;
static MPI_Aint *bases;         /* the addresses of the ranks in a dynamic window; otherwise 0 */
static size_t part_bytes;
static int64_t (*model)[ZONES][WORDS];
static unsigned char (*touched)[ZONES][WORDS];
static int64_t (*added)[COUNTERS];
static uint64_t own_state, common_state;
static int seed, round_number, may_flush, may_request;

static uint64_t next_of(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 11;
}

/* A random number of this rank, and a random number that is equal on all ranks. */
static int pick(int below) { return (int) (next_of(&own_state) % (uint64_t) below); }
static int agree(int below) { return (int) (next_of(&common_state) % (uint64_t) below); }

#define RIGHT(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) fprintf(stderr, "seed %d, round %d: ", seed, round_number);              \
        CHECK(condition, __VA_ARGS__);                                                             \
    } while (0)

static MPI_Datatype type_of(int zone)
{
    MPI_Datatype types[ZONES] = {MPI_INT64_T, MPI_DOUBLE, MPI_INT32_T, MPI_INT64_T};
    return types[zone];
}

static size_t size_of(int zone) { return 2 == zone ? 4 : 8; }

/* Values are small whole numbers, which all types represent exactly. */
static void store(void *at, int zone, int64_t value)
{
    double real = (double) value;
    int32_t small = (int32_t) value;
    memcpy(at, 1 == zone ? (void *) &real : 2 == zone ? (void *) &small : (void *) &value, size_of(zone));
}

static int64_t load(const void *at, int zone)
{
    double real;
    int32_t small;
    int64_t value;
    if (1 == zone) return memcpy(&real, at, 8), (int64_t) real;
    if (2 == zone) return memcpy(&small, at, 4), small;
    return memcpy(&value, at, 8), value;
}

/* The offset of a word of this rank's part in a target's memory. */
static size_t offset_of(int origin, int zone, int word)
{
    return COUNTERS * 8 + (size_t) origin * PART + (size_t) zone * WORDS * 8 + (3 == zone) + (size_t) word * size_of(zone);
}

static MPI_Aint place(int target, size_t offset) { return bases[target] + (MPI_Aint) offset; }

/* A buffer of an operation, and its expected final content. */
typedef struct {
    int is_used, is_result, target, zone, count;
    int64_t expected[MOST];
    char bytes[MOST * 8];
} Buffer;

static Buffer buffers[PENDING];
static int free_buffers = PENDING;

static void look(Buffer *of)
{
    for (int i = 0; of->is_result && i < of->count; ++i) {
        int64_t found = load(of->bytes + (size_t) i * size_of(of->zone), of->zone);
        RIGHT(found == of->expected[i], "zone %d of rank %d, word %d: %ld for %ld", of->zone, of->target, i, (long) found,
              (long) of->expected[i]);
    }
    memset(of->bytes, 0xAB, sizeof of->bytes);
}

/* All operations to a target, or to all targets (-1), are complete. */
static void completed(int target)
{
    for (int i = 0; i < PENDING; ++i) {
        if (!buffers[i].is_used || (target >= 0 && buffers[i].target != target)) continue;
        look(buffers + i);
        buffers[i].is_used = 0;
        ++free_buffers;
    }
    for (int rank = 0; rank < world_size; ++rank) {
        if (target < 0 || rank == target) memset(touched[rank], CLEAN, sizeof touched[rank]);
    }
}

static void complete_all(void)
{
    MPI_Win_flush_all(win);
    completed(-1);
}

static Buffer *buffer(int target, int zone, int count, int is_result)
{
    Buffer *of = buffers;
    while (of->is_used) ++of;
    --free_buffers;
    of->is_used = 1;
    of->target = target;
    of->zone = zone;
    of->count = count;
    of->is_result = is_result;
    return of;
}

/* The words of an operation: their places, and a type that describes them relative to the
 * first. */
typedef struct {
    int zone, count, words[MOST];
    MPI_Datatype type;
    int items;
} Shape;

static Shape shape(void)
{
    Shape of = {.zone = pick(ZONES), .count = 1 + pick(MOST), .items = 1};
    int stride = 1 + pick(3), first = pick(WORDS - (MOST - 1) * 4), kind = pick(4);
    MPI_Datatype element = type_of(of.zone);
    if (0 == kind) of.count = 1;
    if (kind < 2) stride = 1;
    for (int i = 0, at = first; i < of.count; ++i, at += 3 == kind ? 1 + pick(4) : stride) of.words[i] = at;
    if (kind < 2) {
        of.type = element;
        of.items = of.count;
        return of;
    }
    if (2 == kind) {
        MPI_Type_vector(of.count, 1, stride, element, &of.type);
    } else {
        int places[MOST];
        for (int i = 0; i < of.count; ++i) places[i] = of.words[i] - first;
        MPI_Type_create_indexed_block(of.count, 1, places, element, &of.type);
    }
    MPI_Type_commit(&of.type);
    return of;
}

static int is_free(const Shape *of, int target, int is_added)
{
    for (int i = 0; i < of->count; ++i) {
        Touch touch = touched[target][of->zone][of->words[i]];
        if (CLEAN != touch && !(is_added && ADDED == touch)) return 0;
    }
    return 1;
}

static int64_t combine(MPI_Op op, int64_t old, int64_t by)
{
    if (MPI_REPLACE == op) return by;
    if (MPI_SUM == op) return old + by;
    if (MPI_MAX == op) return old > by ? old : by;
    if (MPI_MIN == op) return old < by ? old : by;
    return old;
}

/* Waits for a request immediately: the result has then arrived, and the operand may
 * change. */
static void wait_for(MPI_Request *request, Buffer *operand, Buffer *result)
{
    if (pick(2)) {
        MPI_Wait(request, MPI_STATUS_IGNORE);
    } else {
        for (int done = 0; !done;) MPI_Test(request, &done, MPI_STATUS_IGNORE);
    }
    if (operand) memset(operand->bytes, 0xAB, sizeof operand->bytes);
    if (result) {
        look(result);
        result->is_result = 0;
    }
}

static void operate(int target)
{
    Shape at = shape();
    int is_added = pick(3) > 0, zone = at.zone;
    if (!is_free(&at, target, is_added)) {
        if (!may_flush) goto end;
        if (pick(2)) complete_all();
        else {
            MPI_Win_flush(target, win);
            completed(target);
        }
    }
    if (free_buffers < 2) {
        if (!may_flush) goto end;
        complete_all();
    }
    MPI_Aint to = place(target, offset_of(world_rank, zone, at.words[0]));
    MPI_Datatype element = type_of(zone);
    MPI_Request request;
    int asks = may_request && 0 == pick(3), count = at.count;
    int64_t by[MOST];
    for (int i = 0; i < count; ++i) by[i] = pick(1000) - 500;
    if (!is_added && pick(2)) {
        Buffer *result = buffer(target, zone, count, 1);
        for (int i = 0; i < count; ++i) result->expected[i] = model[target][zone][at.words[i]];
        if (asks) {
            MPI_Rget(result->bytes, count, element, target, to, at.items, at.type, win, &request);
            wait_for(&request, NULL, result);
        } else {
            MPI_Get(result->bytes, count, element, target, to, at.items, at.type, win);
        }
    } else if (!is_added) {
        Buffer *operand = buffer(target, zone, count, 0);
        for (int i = 0; i < count; ++i) {
            store(operand->bytes + (size_t) i * size_of(zone), zone, by[i]);
            model[target][zone][at.words[i]] = by[i];
        }
        if (asks) {
            MPI_Rput(operand->bytes, count, element, target, to, at.items, at.type, win, &request);
            wait_for(&request, operand, NULL);
        } else {
            MPI_Put(operand->bytes, count, element, target, to, at.items, at.type, win);
        }
    } else {
        MPI_Op ops[] = {MPI_SUM, MPI_REPLACE, MPI_MAX, MPI_MIN, MPI_NO_OP};
        int fetches = pick(2);
        MPI_Op op = ops[pick(fetches ? 5 : 4)];
        Buffer *operand = buffer(target, zone, count, 0), *result = fetches ? buffer(target, zone, count, 1) : NULL;
        for (int i = 0; i < count; ++i) {
            int64_t *word = &model[target][zone][at.words[i]];
            if (fetches) result->expected[i] = *word;
            store(operand->bytes + (size_t) i * size_of(zone), zone, by[i]);
            *word = combine(op, *word, by[i]);
        }
        if (!fetches && asks) {
            MPI_Raccumulate(operand->bytes, count, element, target, to, at.items, at.type, op, win, &request);
            wait_for(&request, operand, NULL);
        } else if (!fetches) {
            MPI_Accumulate(operand->bytes, count, element, target, to, at.items, at.type, op, win);
        } else if (1 == count && !asks && pick(2)) {
            if (3 != zone && 1 != zone && 0 == pick(3) && MPI_NO_OP == op) {
                /* The comparand equals the present value, so the swap succeeds. */
                int64_t old = result->expected[0];
                store(result->bytes + 8, zone, old);
                model[target][zone][at.words[0]] = by[0];
                MPI_Compare_and_swap(operand->bytes, result->bytes + 8, result->bytes, element, target, to, win);
            } else {
                MPI_Fetch_and_op(operand->bytes, result->bytes, element, target, to, op, win);
            }
        } else if (asks) {
            MPI_Rget_accumulate(operand->bytes, count, element, result->bytes, count, element, target, to, at.items, at.type, op, win,
                                &request);
            wait_for(&request, operand, result);
        } else {
            MPI_Get_accumulate(operand->bytes, count, element, result->bytes, count, element, target, to, at.items, at.type, op, win);
        }
    }
    for (int i = 0; i < count; ++i) touched[target][zone][at.words[i]] = is_added ? ADDED : MOVED;
    if (0 == pick(4)) {
        static const int64_t one = 1;
        int counter = pick(COUNTERS);
        MPI_Accumulate(&one, 1, MPI_INT64_T, target, place(target, (size_t) counter * 8), 1, MPI_INT64_T, MPI_SUM, win);
        added[target][counter] += 1;
    }
    if (may_flush && 0 == pick(8)) {
        /* Operands may change, and fetched values have arrived. */
        int all = pick(2);
        if (all) MPI_Win_flush_local_all(win);
        else MPI_Win_flush_local(target, win);
        for (int i = 0; i < PENDING; ++i) {
            if (!buffers[i].is_used || !(all || buffers[i].target == target)) continue;
            look(buffers + i);
            buffers[i].is_result = 0;
        }
    }
end:
    if (at.type != type_of(zone)) MPI_Type_free(&at.type);
}

static void epoch(Epoch kind)
{
    int times = 1 + pick(OPERATIONS);
    may_flush = may_request = LOCK_ALL == kind || LOCK == kind;
    if (LOCK_ALL == kind) {
        MPI_Win_lock_all(pick(4) ? 0 : MPI_MODE_NOCHECK, win);
        for (int i = 0; i < times; ++i) operate(pick(world_size));
        MPI_Win_unlock_all(win);
    } else if (LOCK == kind) {
        for (int i = 0; i < 4; ++i) {
            int target = pick(world_size);
            MPI_Win_lock(pick(2) ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target, 0, win);
            for (int j = 0; j < times / 4; ++j) operate(target);
            MPI_Win_unlock(target, win);
            completed(-1);
        }
    } else if (FENCE == kind) {
        MPI_Win_fence(0, win);
        for (int i = 0; i < times; ++i) operate(pick(world_size));
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    } else {
        MPI_Group all;
        MPI_Comm_group(MPI_COMM_WORLD, &all);
        MPI_Win_post(all, 0, win);
        MPI_Win_start(all, 0, win);
        for (int i = 0; i < times; ++i) operate(pick(world_size));
        MPI_Win_complete(win);
        MPI_Win_wait(win);
        MPI_Group_free(&all);
    }
    completed(-1);
}

/* Compares the memory of each rank with the values that the parts' owners expect. */
static void compare(void)
{
    size_t words = ZONES * WORDS;
    int64_t(*theirs)[ZONES][WORDS] = malloc((size_t) world_size * sizeof *theirs);
    MPI_Alltoall(model, (int) words, MPI_INT64_T, theirs, (int) words, MPI_INT64_T, MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, world_rank, 0, win);
    for (int origin = 0; origin < world_size; ++origin) {
        for (int zone = 0; zone < ZONES; ++zone) {
            for (int word = 0; word < WORDS; ++word) {
                int64_t found = load(memory + offset_of(origin, zone, word), zone);
                RIGHT(found == theirs[origin][zone][word], "rank %d, zone %d, word %d: found %ld, expected %ld", origin, zone, word, (long) found,
                      (long) theirs[origin][zone][word]);
            }
        }
    }
    MPI_Win_unlock(world_rank, win);
    free(theirs);
    int64_t(*sums)[COUNTERS] = malloc((size_t) world_size * sizeof *sums);
    MPI_Allreduce(added, sums, world_size * COUNTERS, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < COUNTERS; ++i) {
        int64_t found = load(memory + i * 8, 0);
        RIGHT(found == sums[world_rank][i], "counter %d: %ld for %ld", i, (long) found, (long) sums[world_rank][i]);
    }
    free(sums);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Makes a window of some flavour whose words are all 0. */
static void make(int flavour)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Aint address = 0;
    if (0 == flavour) {
        MPI_Win_allocate((MPI_Aint) part_bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    } else {
        memory = aligned_alloc(64, (part_bytes + 63) / 64 * 64);
        if (1 == flavour) {
            MPI_Win_create(memory, (MPI_Aint) part_bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        } else {
            MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
            MPI_Win_attach(win, memory, (MPI_Aint) part_bytes);
            MPI_Get_address(memory, &address);
        }
    }
    MPI_Allgather(&address, 1, MPI_AINT, bases, 1, MPI_AINT, MPI_COMM_WORLD);
    MPI_Win_get_name(win, name, &length);
    CHECK(0 == strcmp(name, "ofi_rs window"), "a window of '%s'", name);
    memset(memory, 0, part_bytes);
    memset(model, 0, (size_t) world_size * sizeof *model);
    memset(added, 0, (size_t) world_size * sizeof *added);
    for (int origin = 0; origin < world_size; ++origin) {
        for (int word = 0; word < WORDS; ++word) store(memory + offset_of(origin, 1, word), 1, 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    seed = argc > 1 ? atoi(argv[1]) : 1;
    int rounds = argc > 2 ? atoi(argv[2]) : 20;
    part_bytes = COUNTERS * 8 + (size_t) world_size * PART;
    model = malloc((size_t) world_size * sizeof *model);
    touched = calloc((size_t) world_size, sizeof *touched);
    added = malloc((size_t) world_size * sizeof *added);
    bases = malloc((size_t) world_size * sizeof *bases);
    common_state = (uint64_t) seed * 0x9E3779B97F4A7C15u + 1;
    own_state = common_state ^ ((uint64_t) world_rank + 1) * 0xD1B54A32D192ED03u;
    for (int flavour = 0; flavour < 3; ++flavour) {
        make(flavour);
        for (round_number = 0; round_number < rounds; ++round_number) {
            Epoch kind = (Epoch) agree(EPOCHS);
            epoch(kind);
            MPI_Barrier(MPI_COMM_WORLD);
            compare();
        }
        if (2 == flavour) MPI_Win_detach(win, memory);
        char *own = memory;
        MPI_Win_free(&win);
        if (flavour) free(own);
    }
    free(model);
    free(touched);
    free(added);
    free(bases);
    finish("osc_random");
    return 0;
}
