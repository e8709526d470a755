/* A hash table over all ranks: each rank inserts its keys by compare-and-swap into the part of the rank to which they
 * belong, and then finds the keys of all ranks.
 *
 *   host-stub launch -n 4 --provider shm -- ./hash_table
 */
#include "example.h"

#define SLOTS 256 /* of a rank, each a key; zero is free */
#define KEYS 100  /* of a rank */

/* The rank of a key, and the slot where the search for it begins. (Multiplicative hashing, with
 * Knuth's multiplier.) */
static int place(int64_t key, int ranks, uint64_t *slot) {
    uint64_t hash = ((uint64_t)key * UINT64_C(0x9E3779B97F4A7C15) >> 32) % ((uint64_t)ranks * SLOTS);
    *slot = hash % SLOTS;
    return (int)(hash / SLOTS);
}

/* Inserts a key in the first free slot from its place on; 0 if the rank's part has none. */
static int insert(int64_t key, int ranks, host_win_t *win) {
    uint64_t first = 0;
    int rank = place(key, ranks, &first);
    for (uint64_t i = 0; i < SLOTS; i++) {
        int64_t nothing = 0, found = 0;
        MUST(host_compare_and_swap(&key, &nothing, &found, HOST_INT64, rank, (first + i) % SLOTS, win));
        MUST(host_win_flush(rank, win));
        if (found == 0 || found == key)
            return 1;
    }
    return 0;
}

static int contains(int64_t key, int ranks, host_win_t *win) {
    uint64_t first = 0;
    int rank = place(key, ranks, &first);
    for (uint64_t i = 0; i < SLOTS; i++) {
        int64_t found = 0;
        MUST(host_get(&found, sizeof found, rank, (first + i) % SLOTS, win));
        MUST(host_win_flush(rank, win));
        if (found == key || found == 0)
            return found == key;
    }
    return 0;
}

int main(void) {
    host_win_t *win = NULL;
    MUST(host_init());
    int rank = host_rank(), size = host_size();
    MUST(host_win_allocate(SLOTS * sizeof(int64_t), sizeof(int64_t), &win));
    MUST(host_barrier());

    /* Neighbours insert some of the same keys. */
    MUST(host_win_lock_all(win));
    for (int64_t key = 1 + rank * KEYS / 2; key <= rank * KEYS / 2 + KEYS; key++)
        EXPECT(insert(key, size, win));
    MUST(host_barrier());
    int64_t last = (size - 1) * KEYS / 2 + KEYS;
    for (int64_t key = 1; key <= last; key++)
        EXPECT(contains(key, size, win));
    EXPECT(!contains(last + 1, size, win));
    MUST(host_win_unlock_all(win));

    printf("rank %d found %d keys\n", rank, (int)last);
    MUST(host_win_free(&win));
    MUST(host_finalize());
    printf("passed\n");
    return 0;
}
