/*
 * User-level threads of Argobots under the host in task mode; over imitation/abt.h where Argobots is not installed.
 *
 *   argobots        over a transport that may answer before a thread waits
 *   argobots slow   over one that takes its time: threads have to be suspended, and most of them at once
 */
#include "crt_argobots.h"
#include "waiting.h"

#define ABT(call) CHECK((call) == ABT_SUCCESS, "%s failed", #call)

static void run(void *number) {
    communicate((int)(intptr_t)number);
}

int main(int argc, char **argv) {
    static ABT_thread threads[TASKS];
    ABT_xstream stream;
    ABT_pool pool;
    ABT(ABT_init(argc, argv));
    MUST(crt_argobots_waits());
    begin(argc, argv);
    ABT(ABT_self_get_xstream(&stream));
    ABT(ABT_xstream_get_main_pools(stream, 1, &pool));
    for (int number = 0; number < TASKS; number++) {
        ABT(ABT_thread_create(pool, run, (void *)(intptr_t)number, ABT_THREAD_ATTR_NULL, &threads[number]));
    }
    for (int number = 0; number < TASKS; number++) {
        ABT(ABT_thread_free(&threads[number]));
    }
    int code = end("argobots");
    MUST(crt_argobots_finish());
    ABT(ABT_finalize());
    return code;
}
