/*
 * The host under Boost.Fiber: a fiber that blocks in a call of the host leaves its thread to the others.
 *
 *     crt_fiber_waits();                      before host_init, in task mode
 *     host_init_thread(HOST_TASK_MULTIPLE, &provided);
 *     boost::fibers::fiber([=] { host_get(halo, bytes, left, 0, win); host_win_flush(left, win); });
 *
 * Link with boost_fiber and boost_context. C++14.
 */
#ifndef CRT_FIBER_HPP
#define CRT_FIBER_HPP

#include <boost/fiber/condition_variable.hpp>
#include <boost/fiber/fss.hpp>
#include <boost/fiber/operations.hpp>
#include <mutex>

#include "host_stub.h"

namespace crt_fiber {

/* What a fiber waits on. The lock is one of threads, and never held by a fiber that is suspended: a fiber that resumes
 * another one must not be suspended, because the other one may be on its thread by then and waits for the end of that. */
struct Waiter {
    std::mutex lock;
    boost::fibers::condition_variable_any changed;
    bool resumed = false;
};

/* The calling fiber. The main fiber of a thread is one too: if it blocked, so would all of its thread. */
inline void *running() {
    static boost::fibers::fiber_specific_ptr<Waiter> own;
    if (own.get() == nullptr) {
        own.reset(new Waiter);
    }
    return own.get();
}

inline void suspend(void *fiber) {
    Waiter *waiter = static_cast<Waiter *>(fiber);
    std::unique_lock<std::mutex> guard(waiter->lock);
    waiter->changed.wait(guard, [waiter] { return waiter->resumed; });
    waiter->resumed = false;
}

inline void resume(void *fiber) {
    Waiter *waiter = static_cast<Waiter *>(fiber);
    std::unique_lock<std::mutex> guard(waiter->lock);
    waiter->resumed = true;
    waiter->changed.notify_one();
}

inline void yield_now() {
    boost::this_fiber::yield();
}

} // namespace crt_fiber

/* Lets fibers wait for the host without their threads, in task mode; before host_init. Without a progress
 * thread, waiting fibers yield to the others instead of being suspended.
 *
 * With a scheduler that moves fibers (shared_work, work_stealing) a call may return on another thread: neither
 * hold a std::mutex across it nor keep the address of a thread_local. host_error_text tells of this call only
 * where it is asked before the fiber waits again. */
inline int crt_fiber_waits() {
    crt_hooks_t hooks = {CRT_HOOKS_MAGIC,    sizeof(crt_hooks_t), CRT_CAN_SUSPEND | CRT_CAN_YIELD, 0,
                         crt_fiber::running, crt_fiber::suspend,  crt_fiber::resume,               crt_fiber::yield_now};
    return crt_set_hooks(&hooks);
}

#endif
