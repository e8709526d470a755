/* If one rank makes an error while a window or communicator is made, the other ranks get an error too, so no
 * rank waits forever. */
#include "example.h"

static int rank, size, wrong;

/* Checks the code of a creation that one rank refuses, and a word of its reason, which all ranks get. */
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
    /* Zero bytes at a null address are accepted. */
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

int main(void) {
    host_comm_t *world = NULL;
    MUST(host_init());
    MUST(rank = host_rank());
    MUST(size = host_size());
    MUST(host_comm_world(&world));
    wrong = rank == size - 1;
    windows(world);
    communicators(world);
    MUST(host_finalize());
    printf("passed\n");
    return 0;
}
