/* What one rank gets wrong in a collective call the others hear of, so that no rank waits for ever. In the checking mode, which
 * tells of collectives too. */
#include "example.h"

static int rank, size, wrong;

/* The code of a creation that one rank refuses, and a word of its reason, which all ranks are given. */
static void heard(int code, const char *word) {
    EXPECT(code == (wrong ? HOST_ERR_ARG : HOST_ERR_COMM));
    EXPECT(strstr(host_error_text(), word) != NULL);
}

static void windows(host_comm_t *world) {
    static int64_t memory[4];
    host_win_t *win = NULL;
    void *base = wrong ? NULL : memory;
    EXPECT(host_win_create_over(world, base, sizeof memory, 8, NULL, &win) == HOST_ERR_JOB);
    EXPECT(win == NULL && strstr(host_error_text(), "null address") != NULL);
    EXPECT(host_win_create(base, sizeof memory, 8, &win) == HOST_ERR_JOB);
    EXPECT(win == NULL && strstr(host_error_text(), "null address") != NULL);
    /* No memory at no address is none. */
    MUST(host_win_create_over(world, NULL, 0, 8, NULL, &win));
    MUST(host_win_free(&win));
}

static void communicators(host_comm_t *world) {
    host_comm_t *made = NULL;
    int first = 0, none = -1, stranger = size;
    heard(host_comm_create(world, wrong ? NULL : &first, 1, &made), "are NULL");
    heard(host_comm_create(world, wrong ? &none : &first, 1, &made), "no rank -1");
    heard(host_comm_create(world, wrong ? &stranger : &first, 1, &made), "rank");
    EXPECT(made == NULL);
    MUST(host_comm_create(world, &first, 1, &made));
    if (made != NULL) {
        MUST(host_comm_free(&made));
    }
}

/* The code of a collective that one rank refuses. */
static void compared(int code) {
    EXPECT(code == (wrong ? HOST_ERR_ARG : HOST_ERR_COMM));
    EXPECT(wrong || strstr(host_error_text(), "with wrong arguments") != NULL);
}

static void collectives(host_comm_t *world) {
    int32_t mine[64] = {1}, all[64];
    size_t counts[64] = {0};
    host_coll_request_t *request = NULL;
    EXPECT(size <= 64);
    compared(host_allreduce(mine, all, 1, wrong ? 99 : HOST_INT32, HOST_SUM, world));
    compared(host_allreduce(mine, all, 1, HOST_INT32, wrong ? 99 : HOST_SUM, world));
    compared(host_bcast(mine, 1, HOST_INT32, wrong ? -9 : 0, world));
    compared(host_reduce_scatter(mine, all, wrong ? NULL : counts, HOST_INT32, HOST_SUM, world));
    int code = host_iallreduce(mine, all, 1, wrong ? 99 : HOST_INT32, HOST_SUM, world, &request);
    if (!wrong) {
        MUST(code);
        code = host_coll_wait(&request);
    }
    compared(code);
    MUST(host_allreduce(mine, all, 1, HOST_INT32, HOST_SUM, world));
    EXPECT(all[0] == size);
}

int main(void) {
    host_comm_t *world = NULL;
    MUST(host_init());
    MUST(rank = host_rank());
    MUST(size = host_size());
    MUST(host_comm_world(&world));
    wrong = rank == size - 1;
    windows(world);
    communicators(world);
    collectives(world);
    MUST(host_finalize());
    printf("passed\n");
    return 0;
}
