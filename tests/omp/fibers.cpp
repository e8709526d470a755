/*
 * Fibers of Boost on two threads that share them, under the host in task mode.
 *
 *   fibers          over a transport that may answer before a fiber waits
 *   fibers slow     over one that takes its time: fibers have to be suspended, and most of them at once
 */
#include <boost/fiber/algo/shared_work.hpp>
#include <boost/fiber/fiber.hpp>
#include <boost/fiber/mutex.hpp>
#include <thread>
#include <vector>

#include "crt_fiber.hpp"
#include "waiting.h"

static boost::fibers::mutex lock;
static boost::fibers::condition_variable all_over;
static bool is_over;

static void share() {
    /* Threads without a fiber keep looking: asleep, they are not told of those that others could share. */
    boost::fibers::use_scheduling_algorithm<boost::fibers::algo::shared_work>(false);
}

int main(int argc, char **argv) {
    MUST(crt_fiber_waits());
    begin(argc, argv);
    share();
    std::thread second([] {
        share();
        std::unique_lock<boost::fibers::mutex> guard(lock);
        all_over.wait(guard, [] { return is_over; });
    });
    std::vector<boost::fibers::fiber> fibers;
    for (int number = 0; number < TASKS; number++) {
        fibers.emplace_back(communicate, number);
    }
    for (auto &fiber : fibers) {
        fiber.join();
    }
    fibers.clear();
    for (int number = 0; number < 4; number++) {
        fibers.emplace_back(move_somewhere, number);
    }
    for (auto &fiber : fibers) {
        fiber.join();
    }
    CHECK(moved > 0, "no fiber was resumed on another thread");
    {
        std::unique_lock<boost::fibers::mutex> guard(lock);
        is_over = true;
        all_over.notify_all();
    }
    second.join();
    return end("fibers");
}
