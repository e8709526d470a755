/* See threads_pthreads_mutex.h. */
#ifndef STAND_IN_THREADS_PTHREADS_THREADS_H
#define STAND_IN_THREADS_PTHREADS_THREADS_H

#include <pthread.h>
#include <sched.h>

static inline void opal_thread_yield(void)
{
    sched_yield();
}

#endif
