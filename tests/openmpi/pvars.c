/* The performance variables of the component that serves the window, or of the component below osc/rdma:
 * their counters grow with the program's operations. */
#include "check.h"

#define PUTS 50

/* The beginning of the variables' names. */
static const char *prefix = "btl_ofi_";

/* A variable's index, by the end of its name; the name begins with the component's
 * name. */
static int find(const char *end)
{
    int count = 0, found = -1;
    MPI_T_pvar_get_num(&count);
    for (int i = 0; i < count; i++) {
        char name[256], text[1024];
        int length = sizeof name, text_length = sizeof text, verbosity, class, bind, readonly, continuous, atomic;
        MPI_Datatype type;
        MPI_T_enum values;
        if (MPI_T_pvar_get_info(i, name, &length, &verbosity, &class, &type, &values, text, &text_length, &bind,
                                &readonly, &continuous, &atomic) != MPI_SUCCESS)
            continue;
        size_t all = strlen(name), tail = strlen(end);
        if (strncmp(name, prefix, strlen(prefix)) != 0 || all < tail || strcmp(name + all - tail, end) != 0)
            continue;
        CHECK(type == MPI_UNSIGNED_LONG_LONG && bind == MPI_T_BIND_NO_OBJECT && readonly && strlen(text) > 20,
              "%s is described wrongly: %s", name, text);
        found = i;
    }
    CHECK(found >= 0, "there is no variable %s*%s", prefix, end);
    return found;
}

/* The count since the handle was allocated. */
static unsigned long long value(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    unsigned long long read = 0;
    CHECK(MPI_T_pvar_read(session, handle, &read) == MPI_SUCCESS, "a variable cannot be read");
    return read;
}

int main(int argc, char **argv)
{
    static const char *carriers[] = {"provider", "message", "ring", "cma", "copy"};
    MPI_T_pvar_session session;
    MPI_T_pvar_handle operations[5], bytes[5], polls, puts;
    int64_t cell[2] = {-1, -1}, mine = 7;
    int level, count;
    start(&argc, &argv, MPI_THREAD_SINGLE);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &level);
    MPI_Win win = window(cell, sizeof(cell));
    char server[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Win_get_name(win, server, &length);
    int by_osc = strcmp(server, "ofi_rs window") == 0;
    if (by_osc)
        prefix = "osc_ofi_rs";

    MPI_T_pvar_session_create(&session);
    for (int i = 0; i < 5; i++) {
        char name[64];
        snprintf(name, sizeof name, "_%s_operations", carriers[i]);
        MPI_T_pvar_handle_alloc(session, find(name), NULL, &operations[i], &count);
        CHECK(count == 1, "%s has %d values", name, count);
        snprintf(name, sizeof name, "_%s_bytes", carriers[i]);
        MPI_T_pvar_handle_alloc(session, find(name), NULL, &bytes[i], &count);
    }
    MPI_T_pvar_handle_alloc(session, find("_polls"), NULL, &polls, &count);
    if (by_osc)
        MPI_T_pvar_handle_alloc(session, find("_puts"), NULL, &puts, &count);

    MPI_Win_lock_all(0, win);
    for (int i = 0; i < PUTS; i++) {
        MPI_Put(&mine, 1, MPI_INT64_T, next, 0, 1, MPI_INT64_T, win);
        MPI_Win_flush(next, win);
    }
    unsigned long long all = 0, moved = 0;
    for (int i = 0; i < 5; i++) {
        unsigned long long by = value(session, operations[i]);
        if (by > 0)
            printf("rank %d: %llu operations, %llu bytes by %s\n", world_rank, by, value(session, bytes[i]), carriers[i]);
        all += by;
        moved += value(session, bytes[i]);
    }
    /* The locks of the window count as operations too. */
    CHECK(all >= PUTS && all < 4 * PUTS, "%llu operations were counted for %d puts", all, PUTS);
    CHECK(moved >= 8 * PUTS, "%llu bytes were counted for %d puts of 8 bytes", moved, PUTS);
    CHECK(value(session, polls) > 0, "no progress was counted");
    if (by_osc)
        CHECK(value(session, puts) == PUTS, "%llu puts were counted", value(session, puts));
    MPI_Win_unlock_all(win);
    MPI_T_pvar_session_free(&session);
    MPI_Win_free(&win);
    /* Open MPI 4.1 crashes if MPI_T ends last, with its own components too. */
    MPI_T_finalize();
    finish("pvars");
    return 0;
}
