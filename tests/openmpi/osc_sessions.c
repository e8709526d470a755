/* Windows of MPI sessions (5.0, 6.0): one session begins after another has ended, so that Open MPI starts
 * again in a process whose libraries stay. A session with MPI_THREAD_MULTIPLE begins beside one without it,
 * and threads then call the latter's window too. */
#include "check.h"

#include <pthread.h>

enum { THREADS = 3, TIMES = 300 };

/* A session with a communicator of all ranks. */
struct part {
    MPI_Session session;
    MPI_Comm comm;
};

static struct part begin(const char *level, const char *name)
{
    struct part part;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "thread_level", level);
    CHECK(MPI_SUCCESS == MPI_Session_init(info, MPI_ERRORS_ARE_FATAL, &part.session), "a session");
    MPI_Info_free(&info);
    MPI_Group group;
    MPI_Group_from_session_pset(part.session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, name, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &part.comm);
    MPI_Group_free(&group);
    MPI_Comm_rank(part.comm, &world_rank);
    MPI_Comm_size(part.comm, &world_size);
    return part;
}

static void end(struct part *part)
{
    MPI_Comm_free(&part->comm);
    MPI_Session_finalize(&part->session);
}

static MPI_Win make(struct part *part, int64_t **base)
{
    MPI_Win win;
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, part->comm, base, &win);
    MPI_Win_get_name(win, name, &length);
    CHECK(0 == strcmp(name, "ofi_rs window"), "a window of '%s'", name);
    memset(*base, 0, 64);
    MPI_Barrier(part->comm);
    return win;
}

static MPI_Win shared;

static void *work(void *unused)
{
    int64_t one = 1, old;
    for (int i = 0; i < TIMES; ++i) {
        int target = (world_rank + i) % world_size;
        MPI_Request request;
        MPI_Rget_accumulate(&one, 1, MPI_INT64_T, &old, 1, MPI_INT64_T, target, 0, 1, MPI_INT64_T, MPI_SUM, shared, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    return unused;
}

int main(void)
{
    int64_t *base, one = 1;
    for (int turn = 0; turn < 3; ++turn) {
        struct part part = begin("MPI_THREAD_SINGLE", "one");
        MPI_Win win = make(&part, &base);
        MPI_Win_fence(0, win);
        MPI_Accumulate(&one, 1, MPI_INT64_T, 0, turn, 1, MPI_INT64_T, MPI_SUM, win);
        MPI_Win_fence(0, win);
        CHECK(0 != world_rank || world_size == base[turn], "turn %d: %ld", turn, (long) base[turn]);
        MPI_Win_free(&win);
        end(&part);
    }
    struct part single = begin("MPI_THREAD_SINGLE", "single");
    shared = make(&single, &base);
    struct part multiple = begin("MPI_THREAD_MULTIPLE", "multiple");
    MPI_Win_lock_all(0, shared);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; ++i) pthread_create(threads + i, NULL, work, NULL);
    for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
    MPI_Win_unlock_all(shared);
    MPI_Barrier(single.comm);
    int64_t all;
    MPI_Allreduce(base, &all, 1, MPI_INT64_T, MPI_SUM, single.comm);
    CHECK((int64_t) world_size * THREADS * TIMES == all, "%ld", (long) all);
    MPI_Win_free(&shared);
    end(&multiple);
    if (0 == world_rank) printf("osc_sessions: ok, %d ranks\n", world_size);
    fflush(stdout);
    end(&single);
}
