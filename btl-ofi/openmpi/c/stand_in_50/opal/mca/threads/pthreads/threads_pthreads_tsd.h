/* See threads_pthreads_mutex.h. */
#ifndef STAND_IN_THREADS_PTHREADS_TSD_H
#define STAND_IN_THREADS_PTHREADS_TSD_H

#include <pthread.h>

typedef pthread_key_t opal_tsd_key_t;

#endif
