/* Operations that a device starts: a thread in the place of a kernel writes, reads and updates a neighbour's window
 * through a ring, by the functions that kernels call. The host executes the commands whenever it
 * makes progress. */
#include <pthread.h>
#include <stdatomic.h>

#include "example.h"
#include "host_xpu_device.h"

#define WORDS 4
#define SLOTS 2

/* The kernel's arguments, and whether the kernel has ended. */
struct kernel {
    host_xpu_ep_t ep;
    host_xpu_win_t win;
    int next, ranks;
    /* On the device. */
    uint64_t *words;
    atomic_int over;
};

/* Posts an operation, and reads its completion: `outcome`. */
#define ENDS(posted, outcome)                              \
    do {                                                   \
        EXPECT((posted) == 0);                             \
        EXPECT(host_xpu_cq_sread(&k->ep, &context) == (outcome)); \
    } while (0)

static void *kernel(void *argument) {
    struct kernel *k = argument;
    host_xpu_context_t context, open[SLOTS];
    uint64_t found[WORDS + 1] = {0}, ones[WORDS] = {1, 1, 1, 1}, five = 5, nine = 9, before = 77;
    ENDS(host_xpu_write(&k->ep, k->words, WORDS * 8, k->next, 0, k->win, &context), 1);
    ENDS(host_xpu_fetch_atomic(&k->ep, &five, &before, k->next, WORDS, k->win, HOST_UINT64, HOST_SUM, &context), 1);
    EXPECT(before == 0);
    ENDS(host_xpu_compare_atomic(&k->ep, &nine, &five, &before, k->next, WORDS, k->win, HOST_UINT64, &context), 1);
    EXPECT(before == 5);
    /* No thread reads the completion of this operation; the flush waits for it. */
    EXPECT(host_xpu_atomic(&k->ep, ones, WORDS, k->next, 0, k->win, HOST_UINT64, HOST_SUM, NULL) == 0);
    ENDS(host_xpu_flush(&k->ep, k->next, k->win, &context), 1);
    ENDS(host_xpu_read(&k->ep, found, sizeof found, k->next, 0, k->win, &context), 1);
    for (int i = 0; i < WORDS; i++)
        EXPECT(found[i] == (uint64_t)(10 * i + 1));
    EXPECT(found[WORDS] == 9 && host_xpu_cntr_read(&k->ep) == 6);

    /* Invalid operations fail alone. */
    host_xpu_win_t none = {k->win.number + 1};
    ENDS(host_xpu_write(&k->ep, ones, 8, k->ranks, 0, k->win, &context), -EINVAL);
    ENDS(host_xpu_write(&k->ep, ones, 8, k->next, 0, none, &context), -EINVAL);
    ENDS(host_xpu_write(&k->ep, ones, 8, k->next, 100, k->win, &context), -EINVAL);
    ENDS(host_xpu_atomic(&k->ep, ones, 1, k->next, 0, k->win, 0x100, HOST_SUM, &context), -EINVAL);
    ENDS(host_xpu_atomic(&k->ep, ones, 1, k->next, 0, k->win, HOST_UINT64, HOST_NO_OP + 1, &context), -EINVAL);
    EXPECT(host_xpu_cntr_readerr(&k->ep) == 5);
    host_xpu_ep_t other = {.prov_id = 1};
    EXPECT(host_xpu_write(&other, ones, 8, k->next, 0, k->win, &context) == -ENOSYS);

    /* One operation per slot: the next has to wait until a completion was read. */
    for (int i = 0; i < SLOTS; i++)
        EXPECT(host_xpu_write(&k->ep, &nine, 8, k->next, WORDS, k->win, &open[i]) == 0);
    EXPECT(host_xpu_write(&k->ep, &nine, 8, k->next, WORDS, k->win, &context) == -EAGAIN);
    for (int i = 0; i < SLOTS; i++)
        EXPECT(host_xpu_cq_sread(&k->ep, &open[i]) == 1);
    atomic_store(&k->over, 1);
    return NULL;
}

int main(void) {
    host_device_ring_t *ring = NULL;
    host_win_t *win = NULL;
    struct kernel k = {.over = 0};
    uint64_t words[WORDS] = {0, 10, 20, 30}, succeeded = 0, failed = 0;
    pthread_t thread;
    MUST(host_init());
    k.ranks = host_size();
    k.next = (host_rank() + 1) % k.ranks;
    if (host_device_level() < 4) {
        fprintf(stderr, "no device starts operations on host memory; try --mca host_pretended_devices 1\n");
        return 1;
    }
    MUST(host_device_alloc(0, sizeof words, (void **)&k.words));
    MUST(host_device_write(k.words, words, sizeof words));
    MUST(host_win_allocate((WORDS + 1) * 8, 8, &win));
    MUST(host_win_lock_all(win));
    MUST(host_barrier());

    MUST(host_device_ring_create(0, SLOTS, &ring));
    MUST(host_device_ring_export(ring, &k.ep));
    MUST(host_device_ring_add_window(ring, win, &k.win));
    EXPECT(pthread_create(&thread, NULL, kernel, &k) == 0);
    while (!atomic_load(&k.over))
        MUST(host_progress());
    EXPECT(pthread_join(thread, NULL) == 0);
    MUST(host_device_ring_status(ring, &succeeded, &failed));
    EXPECT(succeeded == 6 + SLOTS && failed == 5);
    EXPECT(host_win_free(&win) == HOST_ERR_STATE);

    /* A post after the end returns an error. */
    host_xpu_context_t context;
    MUST(host_device_ring_close(ring));
    EXPECT(host_device_ring_status(ring, &succeeded, &failed) == HOST_ERR_STATE);
    EXPECT(host_xpu_flush(&k.ep, k.next, k.win, &context) == -ECANCELED);
    MUST(host_device_ring_free(&ring));
    EXPECT(ring == NULL && host_device_ring_free(&ring) == HOST_ERR_ARG);

    MUST(host_barrier());
    uint64_t *own = host_win_base(win);
    for (int i = 0; i < WORDS; i++)
        EXPECT(own[i] == words[i] + 1);
    EXPECT(own[WORDS] == 9);
    MUST(host_win_unlock_all(win));
    MUST(host_win_free(&win));
    MUST(host_device_free((void **)&k.words));
    MUST(host_finalize());
    printf("passed\n");
    return 0;
}
