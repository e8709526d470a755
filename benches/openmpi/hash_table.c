/* A hash table over all ranks: each rank inserts its keys by MPI_Compare_and_swap and MPI_Put into the part of the rank to
 * which they belong, and then finds the keys of the next rank by MPI_Get.
 *
 * The result is checked: each key is found with its value, other keys are not found, and the table holds the number of
 * inserted keys. Prints the time to solution of inserting and of finding.
 *
 * Usage: hash_table create|allocate KEYS (of each rank) */
#include "job.h"

#include <stdint.h>

struct slot {
    int64_t key, value; /* key 0: free */
};

static int rank, size;
static int64_t slots; /* of each rank: twice as many as keys, so that chains stay short */

/* Scatters bits (the finalizer of MurmurHash3). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdu;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53u;
    return x ^ (x >> 33);
}

static int64_t key_of(int owner, int64_t number, int64_t keys)
{
    return 1 + owner * keys + number;
}

static int64_t value_of(int64_t key)
{
    return (int64_t) mix((uint64_t) ~key);
}

static int home(int64_t key)
{
    return (int) (mix((uint64_t) key) % (uint64_t) size);
}

/* The slot of a key after `tries` others. */
static MPI_Aint slot_of(int64_t key, int64_t tries)
{
    return (MPI_Aint) ((mix((uint64_t) key) / (uint64_t) size + (uint64_t) tries) % (uint64_t) slots);
}

/* Returns whether the key has a slot now. */
static int insert(int64_t key, int64_t value, MPI_Win win)
{
    static const int64_t vacant = 0;
    int target = home(key);
    for (int64_t tries = 0; tries < slots; ++tries) {
        MPI_Aint place = slot_of(key, tries) * (MPI_Aint) sizeof(struct slot);
        int64_t before;
        MPI_Compare_and_swap(&key, &vacant, &before, MPI_INT64_T, target, place, win);
        MPI_Win_flush(target, win);
        if (before == vacant) {
            MPI_Put(&value, 1, MPI_INT64_T, target, place + (MPI_Aint) sizeof(int64_t), 1, MPI_INT64_T, win);
            MPI_Win_flush(target, win);
            return 1;
        }
    }
    return 0;
}

/* The value of a key; returns whether there is one. */
static int find(int64_t key, int64_t *value, MPI_Win win)
{
    int target = home(key);
    for (int64_t tries = 0; tries < slots; ++tries) {
        struct slot slot;
        MPI_Get(&slot, 2, MPI_INT64_T, target, slot_of(key, tries) * (MPI_Aint) sizeof(slot), 2, MPI_INT64_T, win);
        MPI_Win_flush(target, win);
        if (slot.key == key) {
            *value = slot.value;
            return 1;
        }
        if (!slot.key) {
            return 0;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    int64_t keys, used = 0, all = 0, value;
    long wrong = 0;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 3 || (keys = atoll(argv[2])) < 1) {
        stop("usage: hash_table create|allocate KEYS");
    }
    pin(rank);
    slots = 2 * keys;
    struct slot *table = make_window(argv[1], (size_t) slots * sizeof(*table), 1, MPI_COMM_WORLD, &win);
    MPI_Win_lock_all(0, win);
    /* Connections are made before the measurement. */
    for (int target = 0; target < size; ++target) {
        MPI_Get(&value, 1, MPI_INT64_T, target, 0, 1, MPI_INT64_T, win);
        MPI_Win_flush(target, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = now();
    for (int64_t i = 0; i < keys; ++i) {
        int64_t key = key_of(rank, i, keys);
        wrong += !insert(key, value_of(key), win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double inserted = now() - begin;
    begin = now();
    for (int64_t i = 0; i < keys; ++i) {
        int64_t key = key_of((rank + 1) % size, i, keys);
        wrong += !find(key, &value, win) || value != value_of(key);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double found = now() - begin;
    for (int64_t i = 0; i < 100; ++i) {
        wrong += find(key_of(size, i, keys), &value, win);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int64_t i = 0; i < slots; ++i) {
        used += table[i].key != 0;
    }
    MPI_Allreduce(&used, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    wrong += all != keys * size;
    int code = conclude("hash_insert", sizeof(*table), inserted, wrong);
    code |= conclude("hash_find", sizeof(*table), found, wrong);
    drop_window(argv[1], table, &win);
    MPI_Finalize();
    return code;
}
