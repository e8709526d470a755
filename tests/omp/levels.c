/*
 * With host_check, the host refuses calls that break the thread level, and such calls have no effect.
 * Under single and funneled, it refuses calls of other threads than the one that joined; under
 * serialized, calls while another thread is in a call; under multiple, none.
 *
 *   levels LEVEL    asks for a level by its number; what is provided depends on OMP_EXTERNAL
 */
#include "common.h"

static host_win_t *win;
static host_comm_t *comm;
static int calls, refused;

/* Counts a call and its refusal. */
static int ask(const char *name, int code) {
    calls++;
    if (code == HOST_ERR_LEVEL) {
        refused++;
        CHECK(strstr(host_error_text(), "thread level") != NULL, "%s: %s", name, host_error_text());
    } else {
        CHECK(code == HOST_SUCCESS, "%s: %d, %s", name, code, host_error_text());
    }
    return code == HOST_ERR_LEVEL;
}

#define ASK(call) ask(#call, call)

static void never(void *data, int status) {
    (void)data;
    (void)status;
}

/* Makes one call of every kind. The given requests are open if all calls are refused; otherwise the
 * calls end them. */
static void call_all(host_request_t **requests, host_coll_request_t **coll) {
    int64_t number = 1;
    static int64_t there, sum;
    int over;
    size_t index;
    crt_cond_t cond = CRT_COND_INIT;
    host_request_t *request = NULL;
    host_coll_request_t *begun = NULL;
    host_win_t *other = NULL;
    host_comm_t *same = NULL;
    ASK(host_put(&number, sizeof number, 0, 0, win));
    ASK(host_win_flush_all(win));
    if (!ASK(host_rput(&number, sizeof number, 0, 0, win, &request))) {
        MUST(host_wait(&request));
    }
    if (!ASK(host_request_attach(requests[0], &cond))) {
        ASK(crt_wait(&cond));
    }
    if (!ASK(host_test(&requests[1], &over)) && !over) {
        MUST(host_wait(&requests[1]));
    }
    ASK(host_waitany(1, &requests[2], &index));
    ASK(host_request_detach(&requests[3], never, NULL));
    ASK(host_waitall(1, &requests[4]));
    ASK(host_wait(&requests[0]));
    ASK(host_progress());
    ASK(host_barrier());
    ASK(host_allreduce(&number, &sum, 1, HOST_INT64, HOST_SUM, comm));
    if (!ASK(host_iallreduce(&number, &there, 1, HOST_INT64, HOST_SUM, comm, &begun))) {
        MUST(host_coll_wait(&begun));
    }
    if (!ASK(host_coll_test(&coll[0], &over)) && !over) {
        MUST(host_coll_wait(&coll[0]));
    }
    ASK(host_coll_wait(&coll[1]));
    if (!ASK(host_comm_dup(comm, &same))) {
        MUST(host_comm_free(&same));
    }
    if (!ASK(host_win_allocate(64, 1, &other))) {
        MUST(host_win_free(&other));
    }
}

/* Calls that a thread makes on existing objects, and on a condition, although its level
 * forbids them. */
static void call_last(host_comm_t **dup, host_win_t **spare, crt_cond_t *cond) {
    CHECK(crt_wait(cond) == HOST_ERR_LEVEL, "a wait that would block was not refused");
    CHECK(host_comm_free(dup) == HOST_ERR_LEVEL && *dup != NULL, "a communicator was freed");
    CHECK(host_win_free(spare) == HOST_ERR_LEVEL && *spare != NULL, "a window was freed");
}

static void begin(host_request_t **requests, host_coll_request_t **coll, int64_t *into) {
    for (int index = 0; index < 5; index++) {
        MUST(host_rget(&into[index], sizeof *into, 0, 0, win, &requests[index]));
    }
    MUST(host_comm_ibarrier(comm, &coll[0]));
    MUST(host_comm_ibarrier(comm, &coll[1]));
}

/* Makes the calls of the joining thread, then those of another thread, one at a time. */
static void one_at_a_time(int provided) {
    int64_t into[5];
    host_request_t *requests[5];
    host_coll_request_t *coll[2];
    begin(requests, coll, into);
    call_all(requests, coll);
    CHECK(refused == 0, "%d of %d calls were refused to the thread that joined", refused, calls);
    calls = 0;
    begin(requests, coll, into);
    host_comm_t *dup;
    host_win_t *spare;
    crt_cond_t cond = CRT_COND_INIT;
    MUST(host_comm_dup(comm, &dup));
    MUST(host_win_allocate(64, 1, &spare));
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1) {
        call_all(requests, coll);
        if (provided < HOST_THREAD_SERIALIZED) {
            call_last(&dup, &spare, &cond);
        }
    }
    if (provided >= HOST_THREAD_SERIALIZED) {
        CHECK(refused == 0, "%d of %d calls were refused", refused, calls);
    } else {
        CHECK(refused == calls, "%d of %d calls were refused", refused, calls);
        /* The refused calls changed nothing: the joining thread can end all objects. */
        for (int index = 0; index < 5; index++) {
            CHECK(requests[index] != NULL, "request %d was lost", index);
        }
        CHECK(coll[0] != NULL && coll[1] != NULL, "a collective was lost");
        MUST(host_waitall(5, requests));
        MUST(host_coll_waitall(2, coll));
        MUST(crt_signal(&cond));
        MUST(crt_wait(&cond));
    }
    MUST(host_comm_free(&dup));
    MUST(host_win_free(&spare));
}

/* A thread waits inside a call until a call of another thread was refused. */
static void two_at_once(void) {
    static crt_cond_t cond = CRT_COND_INIT;
    int seen = 0;
#pragma omp parallel num_threads(2) shared(seen)
    if (omp_get_thread_num() == 1) {
        int code;
        /* This call is refused while the other thread is in a call. */
        do {
            code = crt_wait(&cond);
        } while (code == HOST_ERR_LEVEL);
        CHECK(code == HOST_SUCCESS, "%d: %s", code, host_error_text());
    } else {
        double begun = seconds();
        while (!seen && seconds() - begun < 20) {
            int code = host_win_flush_all(win);
            seen = code == HOST_ERR_LEVEL && strstr(host_error_text(), "in a call") != NULL;
        }
        MUST(crt_signal(&cond));
    }
    CHECK(seen, "no call was refused while another thread was in one");
}

int main(int argc, char **argv) {
    static const char *const names[] = {"single", "funneled", "serialized", "multiple", "task multiple"};
    int provided;
    MUST(host_init_thread(argc > 1 ? atoi(argv[1]) : HOST_THREAD_FUNNELED, &provided));
    MUST(host_comm_world(&comm));
    MUST(host_win_allocate(64, 1, &win));
    MUST(host_win_lock_all(win));
    one_at_a_time(provided);
    if (provided == HOST_THREAD_SERIALIZED) {
        two_at_once();
    }
    MUST(host_win_unlock_all(win));
    MUST(host_win_free(&win));
    printf("%s: %d calls, %d refused\n", names[provided], calls, refused);
    return done("levels");
}
