/*
 * The host under StarPU 1.3: tasks that end when a request is complete, and tasks of its OpenMP support
 * (starpu_omp_task_region) that are suspended while they wait.
 *
 *     void halo_cpu(void *buffers[], void *arg) {
 *         host_request_t *request;
 *         host_rget(halo, bytes, left, 0, win, &request);
 *         crt_starpu_detach(&request);            the task ends when the bytes are here
 *     }
 */
#ifndef CRT_STARPU_H
#define CRT_STARPU_H

#include <pthread.h>
#include <starpu.h>
#include <stdint.h>
#include <stdlib.h>

#include "host_stub.h"

#ifdef __cplusplus
extern "C" {
#endif

static int crt_starpu_failed;

static void crt_starpu_release(void *task, int status) {
    if (status < 0) {
        __atomic_fetch_add(&crt_starpu_failed, 1, __ATOMIC_RELAXED);
    }
    starpu_task_end_dep_release((struct starpu_task *)task);
}

/* Operations of detached tasks of this file that failed so far. */
static inline int crt_starpu_failures(void) {
    return __atomic_load_n(&crt_starpu_failed, __ATOMIC_RELAXED);
}

/* Lets the calling task, of any kind, end when the request is complete, and not before its codelet returns;
 * sets the handle to NULL. The tasks that depend on it wait meanwhile, its worker does not. On an error the
 * request is still the caller's. Needs progress from elsewhere: see host_request_detach. */
static inline int crt_starpu_detach(host_request_t **request) {
    struct starpu_task *task = starpu_task_get_current();
    int code;
    if (task == NULL) {
        return HOST_ERR_STATE;
    }
    starpu_task_end_dep_add(task, 1);
    code = host_request_detach(request, crt_starpu_release, task);
    if (code != HOST_SUCCESS) {
        starpu_task_end_dep_release(task);
    }
    return code;
}

#ifdef STARPU_OPENMP
/* A task that is suspended, on its own stack, or one that was resumed before that. */
typedef struct crt_starpu_waiter {
    struct starpu_task *task;
    struct crt_starpu_waiter *next;
    /* Set as long as the task is suspended; StarPU takes a task that waits for a lock off its worker. */
    starpu_omp_lock_t lock;
    int is_early;
} crt_starpu_waiter_t;

enum { CRT_STARPU_LISTS = 64 };

/* By the task's address: StarPU has no room for a word of ours in a task. */
static struct {
    pthread_mutex_t mutex;
    crt_starpu_waiter_t *first;
} crt_starpu_lists[CRT_STARPU_LISTS];

static pthread_once_t crt_starpu_once = PTHREAD_ONCE_INIT;

static void crt_starpu_begin(void) {
    for (int list = 0; list < CRT_STARPU_LISTS; list++) {
        pthread_mutex_init(&crt_starpu_lists[list].mutex, NULL);
    }
}

static unsigned crt_starpu_list(const void *task) {
    return (unsigned)(((uintptr_t)task >> 6) % CRT_STARPU_LISTS);
}

/* Takes the task's waiter out of its list, whose mutex the caller holds; NULL if there is none. */
static crt_starpu_waiter_t *crt_starpu_take(unsigned list, const struct starpu_task *task) {
    crt_starpu_waiter_t **at = &crt_starpu_lists[list].first;
    while (*at != NULL && (*at)->task != task) {
        at = &(*at)->next;
    }
    crt_starpu_waiter_t *found = *at;
    if (found != NULL) {
        *at = found->next;
    }
    return found;
}

static void crt_starpu_put(unsigned list, crt_starpu_waiter_t *waiter) {
    waiter->next = crt_starpu_lists[list].first;
    crt_starpu_lists[list].first = waiter;
}

/* Only tasks of the OpenMP support have a stack of their own. */
static void *crt_starpu_running(void) {
    struct starpu_task *task = starpu_task_get_current();
    return task != NULL && task->omp_task != NULL ? task : NULL;
}

static void crt_starpu_suspend(void *handle) {
    struct starpu_task *task = (struct starpu_task *)handle;
    unsigned list = crt_starpu_list(task);
    pthread_mutex_lock(&crt_starpu_lists[list].mutex);
    crt_starpu_waiter_t *early = crt_starpu_take(list, task);
    if (early != NULL) {
        pthread_mutex_unlock(&crt_starpu_lists[list].mutex);
        free(early);
        return;
    }
    crt_starpu_waiter_t waiter = {task, NULL, {NULL}, 0};
    starpu_omp_init_lock(&waiter.lock);
    starpu_omp_set_lock(&waiter.lock);
    crt_starpu_put(list, &waiter);
    pthread_mutex_unlock(&crt_starpu_lists[list].mutex);
    /* Until crt_starpu_resume unsets it; maybe on another worker from here on. */
    starpu_omp_set_lock(&waiter.lock);
    /* The one that resumes holds the mutex until it leaves the lock. */
    pthread_mutex_lock(&crt_starpu_lists[list].mutex);
    pthread_mutex_unlock(&crt_starpu_lists[list].mutex);
    starpu_omp_unset_lock(&waiter.lock);
    starpu_omp_destroy_lock(&waiter.lock);
}

static void crt_starpu_resume(void *handle) {
    struct starpu_task *task = (struct starpu_task *)handle;
    unsigned list = crt_starpu_list(task);
    pthread_mutex_lock(&crt_starpu_lists[list].mutex);
    crt_starpu_waiter_t *waiter = crt_starpu_take(list, task);
    if (waiter != NULL && !waiter->is_early) {
        starpu_omp_unset_lock(&waiter->lock);
    } else {
        if (waiter == NULL) {
            waiter = (crt_starpu_waiter_t *)calloc(1, sizeof *waiter);
        }
        if (waiter == NULL) {
            /* Without it the task would wait for ever. */
            abort();
        }
        waiter->task = task;
        waiter->is_early = 1;
        crt_starpu_put(list, waiter);
    }
    pthread_mutex_unlock(&crt_starpu_lists[list].mutex);
}

/* Lets tasks of StarPU's OpenMP support wait for the host without their workers, in task mode; before
 * host_init. Tasks of other kinds block their workers, and are better detached. Needs the progress thread of task mode.
 * A task with untied_clause may return from a call on another worker; one without stays on its own. */
static inline int crt_starpu_waits(void) {
    crt_hooks_t hooks = {CRT_HOOKS_MAGIC,    sizeof(crt_hooks_t), CRT_CAN_SUSPEND,   0,
                         crt_starpu_running, crt_starpu_suspend,  crt_starpu_resume, NULL};
    pthread_once(&crt_starpu_once, crt_starpu_begin);
    return crt_set_hooks(&hooks);
}
#endif

#ifdef __cplusplus
}
#endif

#endif
