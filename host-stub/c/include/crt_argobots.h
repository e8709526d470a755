/*
 * The host under Argobots 1.0 or newer: a user-level thread that blocks in a call of the host leaves its
 * execution stream to the others.
 *
 *     ABT_init(argc, argv);
 *     crt_argobots_waits();                   before host_init, in task mode
 *     host_init_thread(HOST_TASK_MULTIPLE, &provided);
 */
#ifndef CRT_ARGOBOTS_H
#define CRT_ARGOBOTS_H

#include <abt.h>
#include <stddef.h>

#include "host_stub.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Each thread's eventual, made at its first wait and freed with the thread. */
static ABT_key crt_argobots_own;

static void crt_argobots_end(void *eventual) {
    ABT_eventual own = (ABT_eventual)eventual;
    ABT_eventual_free(&own);
}

/* NULL outside of a user-level thread: a tasklet has no stack to leave, a thread of the system no stream. */
static void *crt_argobots_running(void) {
    ABT_unit_type type;
    void *own = NULL;
    ABT_eventual made;
    if (ABT_self_get_type(&type) != ABT_SUCCESS || type != ABT_UNIT_TYPE_THREAD ||
        ABT_key_get(crt_argobots_own, &own) != ABT_SUCCESS) {
        return NULL;
    }
    if (own == NULL) {
        if (ABT_eventual_create(0, &made) != ABT_SUCCESS) {
            return NULL;
        }
        own = (void *)made;
        if (ABT_key_set(crt_argobots_own, own) != ABT_SUCCESS) {
            crt_argobots_end(own);
            return NULL;
        }
    }
    return own;
}

/* A resume between the wait and the reset is of the same wait of the host, which looks again after this. */
static void crt_argobots_suspend(void *own) {
    ABT_eventual_wait((ABT_eventual)own, NULL);
    ABT_eventual_reset((ABT_eventual)own);
}

/* One that is set already stays set: the error says only that. */
static void crt_argobots_resume(void *own) {
    ABT_eventual_set((ABT_eventual)own, NULL, 0);
}

static void crt_argobots_yield(void) {
    ABT_thread_yield();
}

/* Lets user-level threads wait for the host without their execution streams, in task mode; after ABT_init and
 * before host_init. Without a progress thread, waiting threads yield instead of being suspended. A thread may
 * return from a call on another stream. */
static inline int crt_argobots_waits(void) {
    crt_hooks_t hooks = {CRT_HOOKS_MAGIC,      sizeof(crt_hooks_t),  CRT_CAN_SUSPEND | CRT_CAN_YIELD, 0,
                         crt_argobots_running, crt_argobots_suspend, crt_argobots_resume,             crt_argobots_yield};
    if (ABT_key_create(crt_argobots_end, &crt_argobots_own) != ABT_SUCCESS) {
        return HOST_ERR_HOOKS;
    }
    return crt_set_hooks(&hooks);
}

/* Ends what crt_argobots_waits began; after host_finalize and before ABT_finalize. */
static inline int crt_argobots_finish(void) {
    int code = crt_set_hooks(NULL);
    ABT_key_free(&crt_argobots_own);
    return code;
}

#ifdef __cplusplus
}
#endif

#endif
