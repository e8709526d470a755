/*
 * A tasking runtime of a hundred lines, with suspend and resume, under the host in task mode: tasks are
 * contexts on one thread, and many tasks wait for communication at the same time.
 *
 *   suspend         over a transport that may answer before a task waits
 *   suspend slow    over one that takes its time: tasks have to be suspended, and all at once
 *   suspend refused    without a progress thread, by which nobody could be resumed
 *   suspend swapped    the same, with hooks in place of others that yield
 */
#include <pthread.h>
#include <stdint.h>
#include <ucontext.h>

#include "waiting.h"

enum { STACK = 256 << 10 };

typedef struct task {
    ucontext_t context;
    int number;
    int resumed; /* a resume that no suspend has taken yet; under the lock */
    int ready;   /* whether the task is in the queue; under the lock */
    int over;    /* under the lock */
    struct task *next;
    char *stack;
} task_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t some = PTHREAD_COND_INITIALIZER;
static task_t *first, **last = &first;
static ucontext_t scheduler;
static __thread task_t *current;
static int suspended_now, suspended_most;

/* The caller holds the lock. */
static void enqueue(task_t *task) {
    if (task->ready) {
        return;
    }
    task->ready = 1;
    task->next = NULL;
    *last = task;
    last = &task->next;
    pthread_cond_signal(&some);
}

static void *running(void) {
    return current;
}

static void suspend(void *handle) {
    task_t *task = handle;
    pthread_mutex_lock(&lock);
    if (suspended_now++ == 0) {
        /* The hooks cannot be removed, because this task waits with them. */
        CHECK(crt_set_hooks(NULL) == HOST_ERR_HOOKS, "hooks were taken away from a waiting task");
    }
    suspended_most = suspended_now > suspended_most ? suspended_now : suspended_most;
    if (task->resumed) {
        enqueue(task);
    }
    pthread_mutex_unlock(&lock);
    swapcontext(&task->context, &scheduler);
    pthread_mutex_lock(&lock);
    suspended_now--;
    task->resumed = 0;
    pthread_mutex_unlock(&lock);
}

static int on_thread; /* the task whose context is in use, as its number plus one; under the lock */

static void resume(void *handle) {
    task_t *task = handle;
    pthread_mutex_lock(&lock);
    CHECK(!task->over, "task %d was resumed after its end", task->number);
    task->resumed = 1;
    if (on_thread != task->number + 1) {
        enqueue(task);
    }
    pthread_mutex_unlock(&lock);
}

/* No task waits by yielding here. */
static void yield(void) {
}

static void body(int number) {
    task_t *task = current;
    communicate(number);
    pthread_mutex_lock(&lock);
    task->over = 1;
    pthread_mutex_unlock(&lock);
    swapcontext(&task->context, &scheduler);
}

static void run(task_t *tasks) {
    int open = TASKS;
    for (int number = 0; number < TASKS; number++) {
        task_t *task = &tasks[number];
        task->number = number;
        task->stack = malloc(STACK);
        getcontext(&task->context);
        task->context.uc_stack.ss_sp = task->stack;
        task->context.uc_stack.ss_size = STACK;
        task->context.uc_link = NULL;
        makecontext(&task->context, (void (*)(void))body, 1, number);
        pthread_mutex_lock(&lock);
        enqueue(task);
        pthread_mutex_unlock(&lock);
    }
    while (open > 0) {
        pthread_mutex_lock(&lock);
        while (first == NULL) {
            pthread_cond_wait(&some, &lock);
        }
        task_t *task = first;
        first = task->next;
        if (first == NULL) {
            last = &first;
        }
        task->ready = 0;
        on_thread = task->number + 1;
        pthread_mutex_unlock(&lock);
        current = task;
        swapcontext(&scheduler, &task->context);
        current = NULL;
        pthread_mutex_lock(&lock);
        on_thread = 0;
        /* A resume that came while the task was being suspended. */
        if (task->resumed && !task->over) {
            enqueue(task);
        }
        pthread_mutex_unlock(&lock);
        if (task->over) {
            open--;
            free(task->stack);
        }
    }
}

int main(int argc, char **argv) {
    static task_t tasks[TASKS];
    crt_hooks_t hooks = {CRT_HOOKS_MAGIC, sizeof hooks, CRT_CAN_SUSPEND, 0, running, suspend, resume, NULL};
    crt_hooks_t yields = {CRT_HOOKS_MAGIC, sizeof hooks, CRT_CAN_YIELD, 0, running, NULL, NULL, yield};
    int refused = is_asked(argc, argv, "refused"), swapped = is_asked(argc, argv, "swapped");
    MUST(crt_set_hooks(swapped ? &yields : &hooks));
    if (refused || swapped) {
        int provided;
        MUST(host_init_thread(HOST_TASK_MULTIPLE, &provided));
        CHECK(provided == (refused ? HOST_THREAD_MULTIPLE : HOST_TASK_MULTIPLE), "level %d", provided);
        const char *reason = refused ? "before init" : "host_progress_thread";
        CHECK(crt_set_hooks(&hooks) == HOST_ERR_HOOKS, "hooks that only suspend were taken");
        CHECK(strstr(host_error_text(), reason) != NULL, "%s", host_error_text());
        MUST(crt_set_hooks(NULL));
        return done("suspend");
    }
    begin(argc, argv);
    double begun = seconds();
    run(tasks);
    double took = seconds() - begun;
    MUST(crt_set_hooks(NULL));
    CHECK(moved == 0, "%d waits returned on another thread than the only one", moved);
    if (rank == 0) {
        printf("%d tasks were suspended at once on one thread\n", suspended_most);
        printf("%d tasks with %d waits each: %.2f ms\n", TASKS, 2 * ROUNDS, 1e3 * took);
    }
    CHECK(!slow || suspended_most > TASKS / 2, "%d of %d tasks were suspended at once", suspended_most,
          TASKS);
    return end("suspend");
}
