/* See ../../threads/pthreads/threads_pthreads_mutex.h. */
#ifndef STAND_IN_TIMER_LINUX_H
#define STAND_IN_TIMER_LINUX_H

#include <stdint.h>

typedef uint64_t opal_timer_t;

#endif
