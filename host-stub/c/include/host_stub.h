/*
 * The host as C programs see it: jobs, windows, one-sided communication, and how calls wait.
 *
 * Link with -lhost_stub. Unless said otherwise functions return HOST_SUCCESS or a negative HOST_ERR_*
 * code, of which host_error_text() then says more, and any thread may call, within the thread level.
 */

#ifndef HOST_STUB_H
#define HOST_STUB_H

/* Made by cbindgen from host-stub/c/src: change the functions there, then run
 * `UPDATE_HEADER=1 cargo test -p host-stub-c`. */

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* A new condition. */
#define CRT_COND_INIT { 0, 0, NULL }

/**
 * The runtime can take a task off its thread and put it back: `running`, `suspend`, `resume`.
 */
#define CRT_CAN_SUSPEND 1

/**
 * The runtime can run another task meanwhile: `running`, `yield_now`.
 */
#define CRT_CAN_YIELD 2

/**
 * Done.
 */
#define HOST_SUCCESS 0

/**
 * An argument is wrong; nothing was done.
 */
#define HOST_ERR_ARG -1

/**
 * The job, window, request or condition is not in a state for the call; nothing was done.
 */
#define HOST_ERR_STATE -2

/**
 * The job could not be joined, or fell apart.
 */
#define HOST_ERR_JOB -3

/**
 * The call does not fit the window or its epoch; nothing was sent.
 */
#define HOST_ERR_WIN -4

/**
 * The thread level provided does not allow the call to this thread.
 */
#define HOST_ERR_LEVEL -5

/**
 * The transport failed at something that was sent.
 */
#define HOST_ERR_TRANSPORT -6

/**
 * A tasking runtime's hooks are not what they claim.
 */
#define HOST_ERR_HOOKS -7

/**
 * Two waits, or two signals, of a condition in a row; the condition is as it was.
 */
#define HOST_ERR_MISUSE -8

/**
 * A bug of the host.
 */
#define HOST_ERR_PANIC -9

/**
 * One thread.
 */
#define HOST_THREAD_SINGLE 0

/**
 * Only the thread that called host_init calls.
 */
#define HOST_THREAD_FUNNELED 1

/**
 * Any thread calls, one at a time.
 */
#define HOST_THREAD_SERIALIZED 2

/**
 * Any threads call at once.
 */
#define HOST_THREAD_MULTIPLE 3

/**
 * Any tasks call at once, and a blocking call blocks its task only.
 */
#define HOST_TASK_MULTIPLE 4

/**
 * Blocking calls occur on the master thread only.
 */
#define OMP_EXTERNAL_MASTER 0

/**
 * Blocking calls occur on any thread, and block it.
 */
#define OMP_EXTERNAL_THREAD 1

/**
 * Blocking calls occur in any task, and block it.
 */
#define OMP_EXTERNAL_TASK 2

/**
 * A lock that others can hold too.
 */
#define HOST_LOCK_SHARED 0

/**
 * A lock that nobody else can hold.
 */
#define HOST_LOCK_EXCLUSIVE 1

/**
 * An operation under way. Ended by host_wait, host_waitall, host_waitany or host_test, which set the
 * handle to NULL, or by host_request_detach. Each of them takes NULL for a request that has ended.
 */
typedef struct host_request_t host_request_t;

/**
 * A window: memory of every rank, open to one-sided access.
 */
typedef struct host_win_t host_win_t;

/**
 * A condition: what a thread or task sleeps on, and a completion signals. All bytes zero
 * (CRT_COND_INIT) is a new one. Wait and signal alternate; one signal that comes before its wait is
 * kept.
 */
typedef struct crt_cond_t {
    /**
     * State, attachments and signals.
     */
    uint32_t word;
    uint32_t reserved;
    /**
     * The task that waits.
     */
    void *task;
} crt_cond_t;

/**
 * What a tasking runtime lends to the host, so that a task waits without its thread.
 */
typedef struct crt_hooks_t {
    /**
     * sizeof(crt_hooks_t).
     */
    uint32_t size;
    /**
     * CRT_CAN_SUSPEND, CRT_CAN_YIELD, or both. What is claimed must be there.
     */
    uint32_t claims;
    /**
     * The task that calls; NULL outside of any, where a wait blocks the thread.
     */
    void *(*running)(void);
    /**
     * Takes the calling task, which is `task`, off its thread until it is resumed. May return early.
     */
    void (*suspend)(void *task);
    /**
     * Lets a task go on. Comes from any thread, maybe before `suspend`, which then returns at once.
     */
    void (*resume)(void *task);
    /**
     * Runs another task on this thread, if there is one.
     */
    void (*yield_now)(void);
} crt_hooks_t;

/**
 * What host_request_detach calls when the operation is complete, with a status of 0 or a negative
 * code of the transport.
 */
typedef void (*host_completed_fn)(void *data, int status);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Turns the condition off, and blocks the calling thread or task, as OMP_EXTERNAL says, until
 * crt_signal turns it on. Returns at once when the signal came before. HOST_ERR_MISUSE: somebody
 * waits already.
 *
 * # Safety
 * `condition` is a condition, which stays meanwhile.
 */
int crt_wait(struct crt_cond_t *condition);

/**
 * Turns the condition on, and lets who waits go on; from any thread. HOST_ERR_MISUSE: it was
 * signalled, and not waited on since.
 *
 * # Safety
 * `condition` is a condition.
 */
int crt_signal(struct crt_cond_t *condition);

/**
 * Ends a condition; its memory may go. HOST_ERR_STATE: it is waited on, or attached to a request, and
 * lives on.
 *
 * # Safety
 * `condition` is a condition.
 */
int crt_cond_destroy(struct crt_cond_t *condition);

/**
 * Sets the hooks of the tasking runtime; NULL takes them away. Used by waits that begin afterwards.
 * HOST_ERR_HOOKS: the table does not hold what it claims; the earlier hooks stay.
 *
 * # Safety
 * `hooks` is NULL or a table, whose functions stay as long as anything waits.
 */
int crt_set_hooks(const struct crt_hooks_t *hooks);

/**
 * For headers that try a runtime before they set its hooks: refuses them, with a text for
 * host_error_text. Always HOST_ERR_HOOKS.
 */
int crt_refuse_hooks(void);

/**
 * The text of the last error of this thread, valid until its next one; empty if there was none.
 */
const char *host_error_text(void);

/**
 * Joins the job that this process was started in by `host-stub launch`, mpirun or srun, or makes one
 * of its own, for any threads at once.
 */
int host_init(void);

/**
 * As host_init, for a thread level HOST_THREAD_*. `provided`, unless NULL, gets the level that the
 * program has to keep to; OMP_EXTERNAL or omp_set_external can make it another than was asked for.
 *
 * # Safety
 * The program keeps to the level provided. `provided` is writable or NULL.
 */
int host_init_thread(int required, int *provided);

/**
 * Leaves the job in good order; collective. Windows have been freed.
 */
int host_finalize(void);

/**
 * This process's rank, or a negative code.
 */
int host_rank(void);

/**
 * Ranks of the job, or a negative code.
 */
int host_size(void);

/**
 * Waits until every rank is here; collective.
 */
int host_barrier(void);

/**
 * Makes progress once: completes what can be completed, and calls what waits for it.
 */
int host_progress(void);

/**
 * Chooses what a blocking call blocks, above the environment's OMP_EXTERNAL. Before host_init; later,
 * and with a value that is none of OMP_EXTERNAL_*, without effect.
 */
void omp_set_external(int mode);

/**
 * What a blocking call blocks: OMP_EXTERNAL_*.
 */
int omp_get_external(void);

/**
 * Waits until an operation is complete, and sets the handle to NULL.
 *
 * # Safety
 * `request` points to NULL or to a request that no other thread uses.
 */
int host_wait(struct host_request_t **request);

/**
 * Waits for all of `count` requests; the first error is returned after all have ended.
 *
 * # Safety
 * As for host_wait, for each of the `count` places at `requests`.
 */
int host_waitall(size_t count, struct host_request_t **requests);

/**
 * Waits for one of `count` requests, sets its handle to NULL, and `index` to its place; to `count`
 * when all have ended.
 *
 * # Safety
 * As for host_waitall; `index` is writable.
 */
int host_waitany(size_t count, struct host_request_t **requests, size_t *index);

/**
 * Makes progress; sets `done` to whether the operation is complete, and if it is, the handle to NULL.
 *
 * # Safety
 * As for host_wait; `done` is writable.
 */
int host_test(struct host_request_t **request,
              int *done);

/**
 * Has a condition signalled when the operation is complete, or at once if it is. The request still
 * has to be ended, by host_wait for one, which then does not block. A request signals one condition.
 *
 * # Safety
 * `request` is a live request that no other thread uses; `condition` stays until it was signalled.
 */
int host_request_attach(struct host_request_t *request,
                        struct crt_cond_t *condition);

/**
 * Lets an operation end by itself, and sets the handle to NULL: `call` is called once with `data`
 * when it is complete, on whatever thread makes progress, or on this one if it is complete already.
 * It must not wait. Needs a progress thread, or somebody who waits, tests or calls host_progress.
 *
 * # Safety
 * `request` points to a request that no other thread uses; buffers and window stay until `call` was
 * called.
 */
int host_request_detach(struct host_request_t **request, host_completed_fn call, void *data);

/**
 * Writes `bytes` bytes to a target's window, at a displacement in its units.
 *
 * # Safety
 * `win` is live. `origin` is unchanged until the operation is complete.
 */
int host_put(const void *origin,
             size_t bytes,
             int target,
             uint64_t displacement,
             struct host_win_t *win);

/**
 * Reads `bytes` bytes of a target's window, at a displacement in its units.
 *
 * # Safety
 * `win` is live. `origin` is touched by nobody until the operation is complete.
 */
int host_get(void *origin, size_t bytes, int target, uint64_t displacement, struct host_win_t *win);

/**
 * As host_put, with a request. In lock and lock_all epochs only.
 *
 * # Safety
 * As for host_put; `request` is writable.
 */
int host_rput(const void *origin,
              size_t bytes,
              int target,
              uint64_t displacement,
              struct host_win_t *win,
              struct host_request_t **request);

/**
 * As host_get, with a request. In lock and lock_all epochs only.
 *
 * # Safety
 * As for host_get; `request` is writable.
 */
int host_rget(void *origin,
              size_t bytes,
              int target,
              uint64_t displacement,
              struct host_win_t *win,
              struct host_request_t **request);

/**
 * Ends the open fence epoch and begins the next; collective.
 *
 * # Safety
 * `win` is live.
 */
int host_win_fence(struct host_win_t *win);

/**
 * Ends the open fence epoch, with none after it; collective.
 *
 * # Safety
 * `win` is live.
 */
int host_win_fence_end(struct host_win_t *win);

/**
 * Opens an access epoch to one rank: HOST_LOCK_SHARED or HOST_LOCK_EXCLUSIVE.
 *
 * # Safety
 * `win` is live.
 */
int host_win_lock(int kind, int target, struct host_win_t *win);

/**
 * Completes operations to a rank, and closes the epoch of host_win_lock.
 *
 * # Safety
 * `win` is live.
 */
int host_win_unlock(int target, struct host_win_t *win);

/**
 * Opens an access epoch to every rank.
 *
 * # Safety
 * `win` is live.
 */
int host_win_lock_all(struct host_win_t *win);

/**
 * Completes all operations, and closes the epoch of host_win_lock_all.
 *
 * # Safety
 * `win` is live.
 */
int host_win_unlock_all(struct host_win_t *win);

/**
 * Completes this rank's operations to a rank, there and here. In lock and lock_all epochs.
 *
 * # Safety
 * `win` is live.
 */
int host_win_flush(int target, struct host_win_t *win);

/**
 * Completes this rank's operations to all ranks, there and here. In lock and lock_all epochs.
 *
 * # Safety
 * `win` is live.
 */
int host_win_flush_all(struct host_win_t *win);

/**
 * Orders this rank's local accesses of its memory with those of others, and makes progress.
 *
 * # Safety
 * `win` is live.
 */
int host_win_sync(struct host_win_t *win);

/**
 * Makes a window of `size` zeroed bytes at this rank; collective. Displacements at this rank are in
 * units of `unit` bytes.
 *
 * # Safety
 * `win` is writable.
 */
int host_win_allocate(size_t size, uint32_t unit, struct host_win_t **win);

/**
 * Makes a window of the caller's memory; collective.
 *
 * # Safety
 * `win` is writable. The memory stays until the window was freed.
 */
int host_win_create(void *base, size_t size, uint32_t unit, struct host_win_t **win);

/**
 * This rank's memory of a window; NULL for no window.
 *
 * # Safety
 * `win` is NULL or a window that is not freed.
 */
void *host_win_base(struct host_win_t *win);

/**
 * Frees a window and sets the handle to NULL; collective. HOST_ERR_STATE: a request of it is open.
 *
 * # Safety
 * `win` points to NULL or to a window that no other thread uses.
 */
int host_win_free(struct host_win_t **win);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HOST_STUB_H */
