/* Two tasks of one thread are suspended inside entries of C layers, of windows and of communicators, and
 * resumed in either order: each task continues in its own call. */
#define _GNU_SOURCE
#include "example.h"

#include <sched.h>
#include <ucontext.h>

enum { TASKS = 2, STACK = 256 << 10 };

typedef struct {
    ucontext_t context;
    char stack[STACK];
    void (*body)(int task);
    int number;
    /* The task waits here inside an entry, until the scheduler lets it continue. */
    crt_cond_t gate;
    int at_gate;
    int over;
} task_t;

/* A layer of one window or communicator. */
typedef struct {
    int calls;
    /* The number of calls that have returned from the layer below. */
    int returns;
} layer_t;

static task_t tasks[TASKS], *current;
static ucontext_t scheduler;
static layer_t upper[TASKS], lower[TASKS], layers_of_comms[TASKS];
static host_win_t *wins[TASKS];
static host_comm_t *comms[TASKS];
static int made_upper, made_lower, made_comms, rank, size, next, before;

static void *running(void) { return current; }

/* The scheduler resumes each task repeatedly, so resume does nothing. */
static void suspend(void *task) { swapcontext(&((task_t *)task)->context, &scheduler); }
static void resume(void *task) { (void)task; }

/* Entries call this function. */
static void wait_at_gate(void) {
    task_t *task = current;
    if (task) {
        task->at_gate++;
        MUST(crt_wait(&task->gate));
    }
}

static void enter(int task) {
    (void)task;
    current->body(current->number);
    current->over = 1;
    swapcontext(&current->context, &scheduler);
}

static void step(task_t *task) {
    current = task;
    swapcontext(&scheduler, &task->context);
    current = NULL;
    sched_yield();
}

/* Runs a task until it waits at a gate for the nth time; with 0, until its end. */
static void run(task_t *task, int gates) {
    while (!task->over && (gates == 0 || task->at_gate < gates)) {
        step(task);
    }
    EXPECT(task->over == (gates == 0));
}

static void begin(task_t *task, int number, void (*body)(int)) {
    memset(&task->gate, 0, sizeof task->gate);
    task->body = body, task->number = number, task->at_gate = task->over = 0;
    EXPECT(getcontext(&task->context) == 0);
    task->context.uc_stack.ss_sp = task->stack;
    task->context.uc_stack.ss_size = sizeof task->stack;
    task->context.uc_link = NULL;
    makecontext(&task->context, (void (*)(void))enter, 1, number);
}

/* Two tasks enter as many layers each, the first task first; `order` selects the task that returns
 * through all its layers before the other does. */
static void in_order(void (*body)(int), int layers, int order) {
    for (int number = 0; number < TASKS; number++) {
        begin(&tasks[number], number, body);
        run(&tasks[number], 1);
    }
    EXPECT(tasks[0].at_gate == 1 && tasks[1].at_gate == 1);
    for (int turn = 0; turn < TASKS; turn++) {
        task_t *task = &tasks[order == 0 ? turn : TASKS - 1 - turn];
        for (int layer = 1; layer <= layers; layer++) {
            MUST(crt_signal(&task->gate));
            run(task, layer < layers ? layer + 1 : 0);
        }
    }
}

static int pass(void *data, const host_rma_layer_t *layer, host_rma_call_t *call) {
    layer_t *mine = data;
    mine->calls++;
    wait_at_gate();
    int code = host_rma_previous(data, layer, call);
    mine->returns += code == HOST_SUCCESS;
    return code;
}

static int window_made(const host_new_win_t *win, host_rma_table_t *table, void *param) {
    (void)win;
    int *made = param;
    table->data = made == &made_upper ? &upper[*made] : &lower[*made];
    ++*made;
    table->entries[HOST_RMA_PUT] = pass;
    table->entries[HOST_RMA_FLUSH] = pass;
    return HOST_SUCCESS;
}

static int pass_collective(void *data, const host_coll_layer_t *layer, host_comm_t *comm, int collective,
                           const host_coll_args_t *args) {
    layer_t *mine = data;
    mine->calls++;
    wait_at_gate();
    int code = host_coll_previous(data, layer, comm, collective, args);
    mine->returns += code == HOST_SUCCESS;
    return code;
}

static int comm_made(host_comm_t *comm, void *param) {
    (void)param;
    host_coll_table_t table = {.magic = HOST_COLL_TABLE_MAGIC, .size = sizeof table};
    MUST(host_comm_get_table(comm, &table));
    table.data = &layers_of_comms[made_comms++];
    table.entries[HOST_COLL_ALLREDUCE].blocking = pass_collective;
    return host_comm_override(comm, &table);
}

static int comm_ended(host_comm_t *comm, void *param) {
    (void)param;
    return host_comm_restore(comm);
}

static int64_t out[TASKS];

static void puts_to_own_window(int task) { MUST(host_put(&out[task], sizeof *out, next, 0, wins[task])); }
static void puts_to_one_window(int task) {
    MUST(host_put(&out[task], sizeof *out, next, (uint64_t)(1 + task), wins[0]));
}
static void flushes_own_window(int task) { MUST(host_win_flush(next, wins[task])); }

static void reduces(int task) {
    int64_t mine = 10 * rank + task, sum = -1;
    MUST(host_allreduce(&mine, &sum, 1, HOST_INT64, HOST_SUM, comms[task]));
    EXPECT(sum == (int64_t)5 * size * (size - 1) + size * task);
}

static void none_is_left(const layer_t *layers, int calls) {
    for (int task = 0; task < TASKS; task++) {
        EXPECT(layers[task].calls == calls && layers[task].returns == calls);
    }
}

int main(void) {
    int provided = -1;
    omp_set_external(OMP_EXTERNAL_TASK);
    crt_hooks_t hooks = {.magic = CRT_HOOKS_MAGIC,
                         .size = sizeof hooks,
                         .claims = CRT_CAN_SUSPEND,
                         .running = running,
                         .suspend = suspend,
                         .resume = resume};
    MUST(crt_set_hooks(&hooks));
    MUST(host_init_thread(HOST_TASK_MULTIPLE, &provided));
    EXPECT(provided == HOST_TASK_MULTIPLE);
    rank = host_rank(), size = host_size();
    next = (rank + 1) % size, before = (rank + size - 1) % size;
    int ids[2] = {host_win_hook_register(window_made, NULL, &made_upper),
                  host_win_hook_register(window_made, NULL, &made_lower)};
    MUST(ids[0]);
    MUST(ids[1]);
    host_comm_t *world = NULL;
    MUST(host_comm_world(&world));
    MUST(host_comm_hooks_register(50, comm_made, comm_ended, NULL));
    for (int task = 0; task < TASKS; task++) {
        MUST(host_win_allocate(4 * sizeof *out, sizeof *out, &wins[task]));
        MUST(host_win_lock_all(wins[task]));
        MUST(host_comm_dup(world, &comms[task]));
    }

    for (int order = 0; order < 2; order++) {
        memset(upper, 0, sizeof upper);
        memset(lower, 0, sizeof lower);
        memset(layers_of_comms, 0, sizeof layers_of_comms);
        for (int task = 0; task < TASKS; task++) {
            out[task] = 1000 * (order + 1) + 10 * rank + task;
        }
        in_order(puts_to_own_window, 2, order);
        in_order(flushes_own_window, 2, order);
        none_is_left(upper, 2);
        none_is_left(lower, 2);
        in_order(puts_to_one_window, 2, order);
        EXPECT(upper[0].returns == 4 && lower[0].returns == 4 && upper[1].returns == 2);
        in_order(reduces, 1, order);
        none_is_left(layers_of_comms, 1);
        MUST(host_win_flush(next, wins[0]));
        MUST(host_barrier());
        for (int task = 0; task < TASKS; task++) {
            int64_t wanted = 1000 * (order + 1) + 10 * before + task;
            EXPECT(((volatile int64_t *)host_win_base(wins[task]))[0] == wanted);
            EXPECT(((volatile int64_t *)host_win_base(wins[0]))[1 + task] == wanted);
        }
        MUST(host_barrier());
    }

    MUST(crt_set_hooks(NULL));
    MUST(host_comm_hooks_unregister(50));
    for (int task = 0; task < TASKS; task++) {
        MUST(host_win_unlock_all(wins[task]));
        MUST(host_win_free(&wins[task]));
        MUST(host_comm_free(&comms[task]));
    }
    MUST(host_win_hook_remove(ids[0]));
    MUST(host_win_hook_remove(ids[1]));
    MUST(host_finalize());
    printf("passed\n");
    return 0;
}
