/*
 * An imitation of the part of Argobots that crt_argobots.h and argobots.c use, for machines without it (Debian 12
 * has no package): each user-level thread is a thread of the system. It shows that the header compiles and that
 * its waits end; it does not show that Argobots leaves an execution stream to others.
 */
#ifndef ABT_H
#define ABT_H

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum { ABT_SUCCESS = 0, ABT_ERR_MEM = 1, ABT_ERR_INV_THREAD = 2, ABT_ERR_EVENTUAL = 3 };

typedef enum { ABT_UNIT_TYPE_THREAD, ABT_UNIT_TYPE_EXT } ABT_unit_type;
typedef pthread_key_t *ABT_key;
typedef pthread_t *ABT_thread;
typedef int ABT_xstream, ABT_pool, ABT_thread_attr;
typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int is_set;
} *ABT_eventual;

#define ABT_THREAD_ATTR_NULL 0

/* Whether the calling thread stands for a user-level one. */
static __thread int abt_is_unit;

typedef struct {
    void (*body)(void *);
    void *arg;
} abt_start_t;

static int ABT_init(int argc, char **argv) {
    (void)argc;
    (void)argv;
    abt_is_unit = 1;
    return ABT_SUCCESS;
}

static int ABT_finalize(void) {
    return ABT_SUCCESS;
}

static int ABT_self_get_xstream(ABT_xstream *stream) {
    *stream = 0;
    return ABT_SUCCESS;
}

static int ABT_xstream_get_main_pools(ABT_xstream stream, int count, ABT_pool *pools) {
    (void)stream;
    for (int at = 0; at < count; at++) {
        pools[at] = 0;
    }
    return ABT_SUCCESS;
}

static int ABT_self_get_type(ABT_unit_type *type) {
    *type = abt_is_unit ? ABT_UNIT_TYPE_THREAD : ABT_UNIT_TYPE_EXT;
    return ABT_SUCCESS;
}

static int ABT_key_create(void (*end)(void *), ABT_key *key) {
    *key = (ABT_key)malloc(sizeof **key);
    return *key == NULL || pthread_key_create(*key, end) != 0 ? ABT_ERR_MEM : ABT_SUCCESS;
}

static int ABT_key_free(ABT_key *key) {
    pthread_key_delete(**key);
    free(*key);
    *key = NULL;
    return ABT_SUCCESS;
}

static int ABT_key_get(ABT_key key, void **value) {
    *value = pthread_getspecific(*key);
    return abt_is_unit ? ABT_SUCCESS : ABT_ERR_INV_THREAD;
}

static int ABT_key_set(ABT_key key, void *value) {
    return pthread_setspecific(*key, value) == 0 ? ABT_SUCCESS : ABT_ERR_MEM;
}

static int ABT_eventual_create(int bytes, ABT_eventual *eventual) {
    (void)bytes;
    *eventual = (ABT_eventual)calloc(1, sizeof **eventual);
    if (*eventual == NULL) {
        return ABT_ERR_MEM;
    }
    pthread_mutex_init(&(*eventual)->mutex, NULL);
    pthread_cond_init(&(*eventual)->changed, NULL);
    return ABT_SUCCESS;
}

static int ABT_eventual_free(ABT_eventual *eventual) {
    free(*eventual);
    *eventual = NULL;
    return ABT_SUCCESS;
}

static int ABT_eventual_wait(ABT_eventual eventual, void **value) {
    (void)value;
    pthread_mutex_lock(&eventual->mutex);
    while (!eventual->is_set) {
        pthread_cond_wait(&eventual->changed, &eventual->mutex);
    }
    pthread_mutex_unlock(&eventual->mutex);
    return ABT_SUCCESS;
}

static int ABT_eventual_set(ABT_eventual eventual, void *value, int bytes) {
    (void)value;
    (void)bytes;
    pthread_mutex_lock(&eventual->mutex);
    int was_set = eventual->is_set;
    eventual->is_set = 1;
    pthread_cond_broadcast(&eventual->changed);
    pthread_mutex_unlock(&eventual->mutex);
    return was_set ? ABT_ERR_EVENTUAL : ABT_SUCCESS;
}

static int ABT_eventual_reset(ABT_eventual eventual) {
    pthread_mutex_lock(&eventual->mutex);
    eventual->is_set = 0;
    pthread_mutex_unlock(&eventual->mutex);
    return ABT_SUCCESS;
}

static int ABT_thread_yield(void) {
    sched_yield();
    return ABT_SUCCESS;
}

static void *abt_run(void *start) {
    abt_start_t run = *(abt_start_t *)start;
    free(start);
    abt_is_unit = 1;
    run.body(run.arg);
    return NULL;
}

static int ABT_thread_create(ABT_pool pool, void (*body)(void *), void *arg, ABT_thread_attr attr,
                             ABT_thread *thread) {
    abt_start_t *start = (abt_start_t *)malloc(sizeof *start);
    *thread = (ABT_thread)malloc(sizeof **thread);
    (void)pool;
    (void)attr;
    if (start == NULL || *thread == NULL) {
        return ABT_ERR_MEM;
    }
    start->body = body;
    start->arg = arg;
    return pthread_create(*thread, NULL, abt_run, start) == 0 ? ABT_SUCCESS : ABT_ERR_MEM;
}

static int ABT_thread_free(ABT_thread *thread) {
    pthread_join(**thread, NULL);
    free(*thread);
    *thread = NULL;
    return ABT_SUCCESS;
}

#endif
