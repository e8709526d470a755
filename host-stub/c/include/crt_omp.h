/*
 * The host under an OpenMP runtime: events of detached tasks, and taskyield.
 *
 * Compile with -fopenmp; for the events with a compiler of OpenMP 5 (GCC 11, Clang 14 or newer).
 *
 *     #pragma omp task detach(event) depend(out: halo[0])
 *     {
 *         host_request_t *request;
 *         host_rget(halo, bytes, left, 0, win, &request);
 *         crt_omp_detach(&request, event);        the task ends when the bytes are here
 *     }
 */
#ifndef CRT_OMP_H
#define CRT_OMP_H

#include <omp.h>
#include <stdint.h>

#include "host_stub.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fulfils the event, called by host_request_detach. A failed operation ends the task, too, because
 * the task must not wait for ever. crt_omp_failures returns the number of failures. */
static int crt_omp_failed;

static void crt_omp_fulfill(void *event, int status) {
    if (status < 0) {
        __atomic_fetch_add(&crt_omp_failed, 1, __ATOMIC_RELAXED);
    }
    omp_fulfill_event((omp_event_handle_t)(uintptr_t)event);
}

/* The number of failed operations of detached tasks of this file. */
static inline int crt_omp_failures(void) {
    return __atomic_load_n(&crt_omp_failed, __ATOMIC_RELAXED);
}

/* Lets the calling task, which has the clause detach(event), end when the request is complete; sets the
 * handle to NULL. On an error the event is fulfilled, too, and the caller keeps the request. This
 * function needs the progress thread, which a program has if it requests task mode
 * (OMP_EXTERNAL=task), at any provided level, or other progress: see host_request_detach. */
static inline int crt_omp_detach(host_request_t **request, omp_event_handle_t event) {
    int code = host_request_detach(request, crt_omp_fulfill, (void *)(uintptr_t)event);
    if (code != HOST_SUCCESS) {
        omp_fulfill_event(event);
    }
    return code;
}

/* A task that yields continues on its own thread. */
static void *crt_omp_running(void) {
    static __thread char inside;
    return omp_in_parallel() ? &inside : NULL;
}

static void crt_omp_yield(void) {
#pragma omp taskyield
}

/* Whether this runtime runs another task at a taskyield: 1 yes, 0 no. Takes two threads for a moment.
 * With one thread the answer is no: a team of one runs each task at once, inside the task that made it.
 * */
static inline int crt_omp_yields(void) {
    int ran = 0, yields = 0, over = 0;
    if (omp_get_max_threads() < 2) {
        return 0;
    }
#pragma omp parallel num_threads(2) shared(ran, yields, over)
    {
        if (omp_get_num_threads() == 2) {
            if (omp_get_thread_num() == 0) {
#pragma omp task shared(ran)
                __atomic_store_n(&ran, 1, __ATOMIC_SEQ_CST);
                for (int tries = 0; tries < 100 && !yields; tries++) {
                    crt_omp_yield();
                    yields = __atomic_load_n(&ran, __ATOMIC_SEQ_CST);
                }
                __atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
            } else {
                /* Keeps this thread from running the task. */
                while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST)) {
                }
            }
        }
    }
    return yields;
}

/* In task mode, lets tasks that block in calls of the host run other tasks meanwhile, by taskyield. Tests
 * the runtime first: HOST_ERR_HOOKS if the runtime's taskyield does nothing, as in GCC's libgomp, or if
 * the runtime uses one thread only. Call this function before host_init: without this call, or after
 * HOST_ERR_HOOKS, a program that requests task mode gets thread mode (HOST_THREAD_MULTIPLE), in which a
 * wait in a task blocks its thread. Detached tasks (crt_omp_detach) work in both modes.
 *
 * Give waiting tasks the clause untied: while a tied task yields, OpenMP lets its thread run only the
 * task's own children.
 *
 * A task that yields stays on its thread's stack below the tasks that run meanwhile, and continues after
 * them. So the end of a task's wait must not depend on steps that an earlier task of its thread makes
 * after its own wait; detached tasks have no such limit. A flush is such a wait, because it follows a
 * flush of the same target that is under way. So tasks that yield wait for their requests, and one task
 * alone flushes. The creation of a communicator is such a wait, too, and so is the first collective on a
 * communicator that spans nodes: only one task at a time may make them. */
static inline int crt_omp_yield_in_waits(void) {
    crt_hooks_t hooks = {CRT_HOOKS_MAGIC, sizeof(crt_hooks_t), CRT_CAN_YIELD, 0,
                         crt_omp_running, NULL,                NULL,          crt_omp_yield};
    if (!crt_omp_yields()) {
        return crt_refuse_hooks();
    }
    return crt_set_hooks(&hooks);
}

#ifdef __cplusplus
}
#endif

#endif
