/* Open MPI 5.0 does not install this header although its installed headers include it. This one stands in where the
 * real one is missing: Open MPI's mutex holds a pthread mutex, and the component calls none of the functions, so
 * that declarations are enough. */
#ifndef STAND_IN_THREADS_PTHREADS_MUTEX_H
#define STAND_IN_THREADS_PTHREADS_MUTEX_H

#include <pthread.h>
#include <stdbool.h>

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;

#define OPAL_THREAD_INTERNAL_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
#define OPAL_THREAD_INTERNAL_COND_INITIALIZER PTHREAD_COND_INITIALIZER

int opal_thread_internal_mutex_init(opal_thread_internal_mutex_t *mutex, bool recursive);
void opal_thread_internal_mutex_lock(opal_thread_internal_mutex_t *mutex);
int opal_thread_internal_mutex_trylock(opal_thread_internal_mutex_t *mutex);
void opal_thread_internal_mutex_unlock(opal_thread_internal_mutex_t *mutex);
void opal_thread_internal_mutex_destroy(opal_thread_internal_mutex_t *mutex);
int opal_thread_internal_cond_init(opal_thread_internal_cond_t *cond);
void opal_thread_internal_cond_wait(opal_thread_internal_cond_t *cond, opal_thread_internal_mutex_t *mutex);
void opal_thread_internal_cond_broadcast(opal_thread_internal_cond_t *cond);
void opal_thread_internal_cond_signal(opal_thread_internal_cond_t *cond);
void opal_thread_internal_cond_destroy(opal_thread_internal_cond_t *cond);

#endif
