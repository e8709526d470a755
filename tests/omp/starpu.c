/*
 * Tasks of StarPU under the host in task mode: those of its OpenMP support are suspended, those of its own are
 * detached.
 *
 *   starpu          over a transport that may answer before a task waits
 *   starpu slow     over one that takes its time: tasks have to be suspended, and most of them at once
 */
#include "crt_starpu.h"
#include "waiting.h"

static int tied_moved, included_over, parents_right, orders_right;
static int64_t fetched;

static void run_communicate(void *buffers[], void *number) {
    (void)buffers;
    communicate((int)(intptr_t)number);
}

static void run_move(void *buffers[], void *number) {
    (void)buffers;
    move_somewhere((int)(intptr_t)number);
}

/* A tied task stays on its thread. */
static void run_tied(void *buffers[], void *number) {
    long thread = this_thread();
    (void)buffers;
    for (int round = 0; round < ROUNDS; round++) {
        exchange((int)(intptr_t)number, round);
        if (this_thread() != thread) {
            __atomic_fetch_add(&tied_moved, 1, __ATOMIC_RELAXED);
        }
    }
}

static void region(void (*body)(void *[], void *), int number, int untied, int undeferred) {
    struct starpu_omp_task_region_attr task;
    memset(&task, 0, sizeof task);
    task.cl.cpu_funcs[0] = body;
    task.cl.where = STARPU_CPU;
    task.cl_arg = (void *)(intptr_t)number;
    task.if_clause = !undeferred;
    task.untied_clause = untied;
    starpu_omp_task_region(&task);
}

static void run_included(void *buffers[], void *number) {
    run_tied(buffers, number);
    __atomic_store_n(&included_over, 1, __ATOMIC_SEQ_CST);
}

/* While the task that it includes is suspended, the parent does not go on. */
static void run_parent(void *buffers[], void *number) {
    (void)buffers;
    region(run_included, (int)(intptr_t)number, 0, 1);
    parents_right += __atomic_load_n(&included_over, __ATOMIC_SEQ_CST);
}

static void in_parallel(void *buffers[], void *arg) {
    (void)buffers;
    (void)arg;
    if (starpu_omp_get_thread_num() == 0) {
        for (int number = 0; number < TASKS; number++) {
            region(run_communicate, number, 1, 0);
        }
        starpu_omp_taskwait();
        for (int number = 0; number < 4; number++) {
            region(run_move, number, 1, 0);
        }
        starpu_omp_taskwait();
        for (int number = 0; number < TASKS; number++) {
            region(run_tied, number, 0, 0);
        }
        starpu_omp_taskwait();
        region(run_parent, 0, 0, 0);
        starpu_omp_taskwait();
    }
}

static void get_detached(void *buffers[], void *arg) {
    host_request_t *request;
    (void)buffers;
    (void)arg;
    MUST(host_rget(&fetched, sizeof fetched, next, (uint64_t)rank * TASKS * sizeof fetched, win, &request));
    MUST(crt_starpu_detach(&request));
}

static void after_get(void *buffers[], void *arg) {
    (void)buffers;
    orders_right += fetched == *(int64_t *)arg;
}

/* A task that is submitted behind a detached one sees what that fetched. */
static void chain(int64_t wanted) {
    static struct starpu_codelet get = {.cpu_funcs = {get_detached}}, look = {.cpu_funcs = {after_get}};
    struct starpu_task *first = starpu_task_create(), *second = starpu_task_create();
    first->cl = &get;
    second->cl = &look;
    second->cl_arg = &wanted;
    starpu_task_declare_deps_array(second, 1, &first);
    CHECK(starpu_task_submit(first) == 0 && starpu_task_submit(second) == 0, "StarPU takes no task");
    starpu_task_wait_for_all();
}

int main(int argc, char **argv) {
    if (starpu_omp_init() != 0) {
        fprintf(stderr, "StarPU's OpenMP support does not start\n");
        return 1;
    }
    MUST(crt_starpu_waits());
    begin(argc, argv);
    struct starpu_omp_parallel_region_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.cl.cpu_funcs[0] = in_parallel;
    attr.cl.where = STARPU_CPU;
    attr.if_clause = 1;
    starpu_omp_parallel_region(&attr);
    CHECK(moved > 0, "no untied task was resumed on another worker");
    CHECK(tied_moved == 0, "tied tasks were moved %d times", tied_moved);
    CHECK(parents_right == 1, "a parent went on before the task that it includes");
    int64_t known = 4711 + rank;
    MUST(host_put(&known, sizeof known, next, (uint64_t)rank * TASKS * sizeof known, win));
    MUST(host_win_flush(next, win));
    chain(known);
    CHECK(orders_right == 1 && crt_starpu_failures() == 0, "a detached task ended before its get");
    int code = end("starpu");
    starpu_omp_shutdown();
    return code;
}
