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
#include <sys/uio.h>
/* The version of this header; host_library_version() gives that of the library. */
#define HOST_VERSION "0.2.0"

/* A new condition. */
#define CRT_COND_INIT { 0, 0, NULL }

// Elements: 8-bit signed integers.
#define HOST_INT8 0

// Elements: 8-bit unsigned integers.
#define HOST_UINT8 1

// Elements: 16-bit signed integers.
#define HOST_INT16 2

// Elements: 16-bit unsigned integers.
#define HOST_UINT16 3

// Elements: 32-bit signed integers.
#define HOST_INT32 4

// Elements: 32-bit unsigned integers.
#define HOST_UINT32 5

// Elements: 64-bit signed integers.
#define HOST_INT64 6

// Elements: 64-bit unsigned integers.
#define HOST_UINT64 7

// Elements: float.
#define HOST_FLOAT 8

// Elements: double.
#define HOST_DOUBLE 9

// No rank. Transfers and atomic updates of windows with this target do
// nothing and succeed, and their requests are complete.
#define HOST_PROC_NULL -2

// Added to a type: the buffers of the call are device memory, or mapped on a device; host memory then is
// refused.
#define HOST_ON_DEVICE 256

// Sum; integers wrap.
#define HOST_SUM 0

// Product; integers wrap.
#define HOST_PROD 1

// Minimum.
#define HOST_MIN 2

// Maximum.
#define HOST_MAX 3

// Logical and; integers.
#define HOST_LAND 4

// Logical or; integers.
#define HOST_LOR 5

// Logical exclusive or; integers.
#define HOST_LXOR 6

// Bitwise and; integers.
#define HOST_BAND 7

// Bitwise or; integers.
#define HOST_BOR 8

// Bitwise exclusive or; integers.
#define HOST_BXOR 9

// The operand; accumulates only.
#define HOST_REPLACE 10

// The target's value; fetching accumulates only.
#define HOST_NO_OP 11

// Done.
#define HOST_SUCCESS 0

// An argument is wrong; nothing was done.
#define HOST_ERR_ARG -1

// The job, window, request or condition is not in a state for the call; nothing was done.
#define HOST_ERR_STATE -2

// The job could not be joined, or fell apart.
#define HOST_ERR_JOB -3

// The call does not fit the window or its epoch; nothing was sent.
#define HOST_ERR_WIN -4

// The thread level provided does not allow the call to this thread.
#define HOST_ERR_LEVEL -5

// The transport failed at something that was sent.
#define HOST_ERR_TRANSPORT -6

// A tasking runtime's hooks are not what they claim.
#define HOST_ERR_HOOKS -7

// Two waits, or two signals, of a condition in a row; the condition is as it was.
#define HOST_ERR_MISUSE -8

// A bug of the host.
#define HOST_ERR_PANIC -9

// A communicator's creation or collective failed, or ranks did not call for the same thing.
#define HOST_ERR_COMM -10

// Major version of this header. The string is HOST_VERSION.
#define HOST_VERSION_MAJOR 0

// Minor version of this header.
#define HOST_VERSION_MINOR 2

// Patch version of this header.
#define HOST_VERSION_PATCH 0

// Place of the barrier entries in a table.
#define HOST_COLL_BARRIER 0

// Place of the bcast entries in a table.
#define HOST_COLL_BCAST 1

// Place of the reduce entries in a table.
#define HOST_COLL_REDUCE 2

// Place of the allreduce entries in a table.
#define HOST_COLL_ALLREDUCE 3

// Place of the gather entries in a table.
#define HOST_COLL_GATHER 4

// Place of the scatter entries in a table.
#define HOST_COLL_SCATTER 5

// Place of the allgather entries in a table.
#define HOST_COLL_ALLGATHER 6

// Place of the alltoall entries in a table.
#define HOST_COLL_ALLTOALL 7

// Place of the reduce_scatter entries in a table.
#define HOST_COLL_REDUCE_SCATTER 8

// Place of the scan entries in a table.
#define HOST_COLL_SCAN 9

// Place of the exscan entries in a table.
#define HOST_COLL_EXSCAN 10

// Place of the allgatherv entries in a table.
#define HOST_COLL_ALLGATHERV 11

// Place of the alltoallv entries in a table.
#define HOST_COLL_ALLTOALLV 12

// Collectives that this host knows, at the places below this one.
#define HOST_COLL_ENTRIES 13

// Places of a table.
#define HOST_COLL_ROOM 64

// In the flags of an entry: those of its functions that are not host_coll_previous and host_coll_previous_start take
// buffers on devices. If a buffer is on a device, they are called with HOST_ON_DEVICE in the type and with the buffers as the
// program named them; host_target_location says where each lies. Other functions get copies in host memory.
#define HOST_COLL_TAKES_DEVICES 1

// What a host_coll_args_t begins with.
#define HOST_COLL_ARGS_MAGIC 3550897271746023240

// What a host_coll_table_t begins with.
#define HOST_COLL_TABLE_MAGIC 3552301356684627784

// The attribute of the world that says what the program can do about devices; see host_device_level.
#define HOST_ATTR_DEVICE_LEVEL 1

// The color of a rank that wants no new communicator.
#define HOST_UNDEFINED -1

// Where a program puts its own layer unless it knows better. The higher the number, the nearer to
// the program; the host's node-local collectives are layer 100. The lowest layer's create hook runs
// last, so that calls come to its table first: below 100 for a layer that is to see every call.
#define HOST_LAYER_PROGRAM 1000

// The runtime can take a task off its thread and put it back: `running`, `suspend`, `resume`.
#define CRT_CAN_SUSPEND 1

// The runtime can run another task meanwhile: `running`, `yield_now`.
#define CRT_CAN_YIELD 2

// What a crt_hooks_t begins with.
#define CRT_HOOKS_MAGIC 3552019933046264387

// Blocking calls occur on the master thread only.
#define OMP_EXTERNAL_MASTER 0

// Blocking calls occur on any thread, and block it.
#define OMP_EXTERNAL_THREAD 1

// Blocking calls occur in any task, and block it.
#define OMP_EXTERNAL_TASK 2

// Kinds of device memory, by libfabric's numbers (enum fi_hmem_iface): host memory.
#define HOST_HMEM_SYSTEM 0

// CUDA.
#define HOST_HMEM_CUDA 1

// ROCm.
#define HOST_HMEM_ROCR 2

// Level Zero.
#define HOST_HMEM_ZE 3

// What a host_overrides_t begins with.
#define HOST_OVERRIDES_MAGIC 3553997954665893704

// Whose functions serve an endpoint: the host's. Libfabric's providers have the numbers from 1 on.
#define HOST_XPU_PROXY 1752134516

// One thread.
#define HOST_THREAD_SINGLE 0

// Only the thread that called host_init calls.
#define HOST_THREAD_FUNNELED 1

// Any thread calls, one at a time.
#define HOST_THREAD_SERIALIZED 2

// Any threads call at once.
#define HOST_THREAD_MULTIPLE 3

// Any tasks call at once, and a blocking call blocks its task only.
#define HOST_TASK_MULTIPLE 4

// The magic number of a host_layout_t.
#define HOST_LAYOUT_MAGIC 3555945176873783112

// Counters that each process of a window has for puts with notification.
#define HOST_WIN_COUNTERS 8

// Made of the caller's memory.
#define HOST_WIN_CREATE 0

// Of memory that the window owns.
#define HOST_WIN_ALLOCATE 1

// Of memory that the window owns and every rank may address.
#define HOST_WIN_ALLOCATE_SHARED 2

// Of memory attached and detached.
#define HOST_WIN_DYNAMIC 3

// A put that adds one to a counter of the target. It has no place in a window's table: it calls put there.
#define HOST_RMA_PUT_NOTIFY 64

// What a host_rma_args_t begins with.
#define HOST_RMA_ARGS_MAGIC 3550897271628518216

// A lock that several ranks hold at once.
#define HOST_LOCK_SHARED 0

// A lock that one rank holds alone.
#define HOST_LOCK_EXCLUSIVE 1

// No conflicting lock is held, or the matching post or start is known to have been called.
#define HOST_MODE_NOCHECK 1

// The window's memory was not stored to here since the last synchronisation.
#define HOST_MODE_NOSTORE 2

// The window's memory here is not updated by others until the next synchronisation.
#define HOST_MODE_NOPUT 4

// This fence ends no communication; on every rank alike.
#define HOST_MODE_NOPRECEDE 8

// This fence begins no communication; on every rank alike.
#define HOST_MODE_NOSUCCEED 16

// Place of put in a window's table.
#define HOST_RMA_PUT 0

// Place of get in a window's table.
#define HOST_RMA_GET 1

// Place of accumulate in a window's table.
#define HOST_RMA_ACCUMULATE 2

// Place of get_accumulate in a window's table.
#define HOST_RMA_GET_ACCUMULATE 3

// Place of fetch_and_op in a window's table.
#define HOST_RMA_FETCH_AND_OP 4

// Place of compare_and_swap in a window's table.
#define HOST_RMA_COMPARE_AND_SWAP 5

// Place of rput in a window's table.
#define HOST_RMA_RPUT 6

// Place of rget in a window's table.
#define HOST_RMA_RGET 7

// Place of raccumulate in a window's table.
#define HOST_RMA_RACCUMULATE 8

// Place of rget_accumulate in a window's table.
#define HOST_RMA_RGET_ACCUMULATE 9

// Place of fence in a window's table.
#define HOST_RMA_FENCE 10

// Place of lock in a window's table.
#define HOST_RMA_LOCK 11

// Place of unlock in a window's table.
#define HOST_RMA_UNLOCK 12

// Place of lock_all in a window's table.
#define HOST_RMA_LOCK_ALL 13

// Place of unlock_all in a window's table.
#define HOST_RMA_UNLOCK_ALL 14

// Place of flush in a window's table.
#define HOST_RMA_FLUSH 15

// Place of flush_all in a window's table.
#define HOST_RMA_FLUSH_ALL 16

// Place of flush_local in a window's table.
#define HOST_RMA_FLUSH_LOCAL 17

// Place of flush_local_all in a window's table.
#define HOST_RMA_FLUSH_LOCAL_ALL 18

// Place of start in a window's table.
#define HOST_RMA_START 19

// Place of complete in a window's table.
#define HOST_RMA_COMPLETE 20

// Place of post in a window's table.
#define HOST_RMA_POST 21

// Place of wait in a window's table.
#define HOST_RMA_WAIT 22

// Place of test in a window's table.
#define HOST_RMA_TEST 23

// Place of sync in a window's table.
#define HOST_RMA_SYNC 24

// Place of free in a window's table.
#define HOST_RMA_FREE 25

// Place of attach in a window's table.
#define HOST_RMA_ATTACH 26

// Place of detach in a window's table.
#define HOST_RMA_DETACH 27

// Place of shared_query in a window's table.
#define HOST_RMA_SHARED_QUERY 28

// Place of set_info in a window's table.
#define HOST_RMA_SET_INFO 29

// Place of get_info in a window's table.
#define HOST_RMA_GET_INFO 30

// Functions that this host knows, at the places below this one.
#define HOST_RMA_ENTRIES 31

// Places of a window's table.
#define HOST_RMA_ROOM 64

// What a host_rma_table_t begins with.
#define HOST_RMA_TABLE_MAGIC 3549202997342064456

// Added to the type of a host_rma_call_t: elements at one side are not contiguous (host_put_layout and the
// like), and the call does not say where they lie. An entry passes such a call to host_rma_previous.
#define HOST_WITH_GAPS 512

// The place of an entry among the tables of a communicator: what host_coll_previous goes on from. For
// the time of the communicator.
typedef struct host_coll_layer_t host_coll_layer_t;

// A collective under way. Ended by host_coll_wait, host_coll_waitall or host_coll_test, which set the
// handle to NULL. A NULL handle stands for a collective that has ended. Never read through.
typedef struct host_coll_request_t host_coll_request_t;

// A communicator: ranks of the job with a context of their own. Never read through.
typedef struct host_comm_t host_comm_t;

// A ring of commands of one device, which all progress of the host serves: waiting calls, host_progress, and the
// progress thread. A number, never read through.
typedef struct host_device_ring_t host_device_ring_t;

// Hints for windows. Never read through.
typedef struct host_info_t host_info_t;

// An operation under way. Ended by host_wait, host_waitall, host_waitany or host_test, which set the
// handle to NULL, or by host_request_detach. For each of them, NULL is a request that has ended. The
// handle is never dereferenced: a handle that has ended, or was never a handle, is HOST_ERR_ARG.
typedef struct host_request_t host_request_t;

// A layer in the course of one call: what host_rma_previous goes on from. Good until the entry that got it
// returns, and on any thread, so that a task may wait meanwhile and go on elsewhere.
typedef struct host_rma_layer_t host_rma_layer_t;

// A window: memory of every rank, open to one-sided access.
typedef struct host_win_t host_win_t;

// Where the blocks of a buffer lie, one of each rank, in the v forms. The lists are as long as there are ranks.
typedef struct host_blocks_t {
    // Elements of each block.
    const size_t *counts;
    // Where each block begins, in elements from the beginning of the buffer.
    const size_t *displacements;
} host_blocks_t;

// The arguments of a collective, those that it has a meaning for; the others are zero. They grow at the
// end only, and `size` says where that is.
typedef struct host_coll_args_t {
    // HOST_COLL_ARGS_MAGIC.
    uint64_t magic;
    // sizeof(host_coll_args_t).
    size_t size;
    // What this rank gives; NULL: it is in `recv`. Of an alltoallv only if the lists of `given` are NULL too.
    const void *send;
    // What it gets; the buffer of a broadcast.
    void *recv;
    // Elements of a broadcast or reduction; of a block in all others. Of an allgatherv those that this rank gives.
    size_t count;
    // Elements that each rank gets of a reduce_scatter; NULL: `count` each.
    const size_t *counts;
    // The element type; with HOST_ON_DEVICE where a buffer is on a device, which only an entry with
    // HOST_COLL_TAKES_DEVICES is called with.
    int datatype;
    // How elements are combined.
    int op;
    // The root's rank.
    int root;
    // Zero.
    int reserved;
    // Where the blocks of an alltoallv's `send` lie.
    struct host_blocks_t given;
    // Where the blocks of an allgatherv's or alltoallv's `recv` lie.
    struct host_blocks_t taken;
} host_coll_args_t;

// A blocking entry: HOST_SUCCESS when the collective is done, or a negative code. `data` is that of
// the table.
typedef int (*host_coll_fn)(void *data,
                            const struct host_coll_layer_t *layer,
                            struct host_comm_t *comm,
                            int collective,
                            const struct host_coll_args_t *args);

// A nonblocking entry: begins the collective and gives a request, from host_coll_previous_start or
// host_coll_request_of_layer; NULL when it is done already. The buffers are good until it is, `args`
// until this returns.
typedef int (*host_coll_start_fn)(void *data,
                                  const struct host_coll_layer_t *layer,
                                  struct host_comm_t *comm,
                                  int collective,
                                  const struct host_coll_args_t *args,
                                  struct host_coll_request_t **request);

// The functions of one collective. All NULL: those that are there stay.
typedef struct host_coll_entry_t {
    // NULL: the host's default is used, not the entry below.
    host_coll_fn blocking;
    // Not NULL where `blocking` is not.
    host_coll_start_fn nonblocking;
    // HOST_COLL_TAKES_DEVICES, or 0.
    size_t flags;
    // Zero: room for another form of the collective.
    size_t reserved[1];
} host_coll_entry_t;

// The collectives of a communicator, as host_comm_get_table copies them and host_comm_override takes
// them. No entry ever moves: new collectives are added at the end, and `size` tells how many entries the
// program was compiled with. A collective that an older program has no entry for stays unchanged. The host
// refuses a table of a newer program that sets an entry unknown to this host.
typedef struct host_coll_table_t {
    // HOST_COLL_TABLE_MAGIC.
    uint64_t magic;
    // sizeof(host_coll_table_t).
    size_t size;
    // What the layer's entries are called with.
    void *data;
    // The functions, at the places HOST_COLL_*.
    struct host_coll_entry_t entries[HOST_COLL_ROOM];
} host_coll_table_t;

// Makes progress with a collective that a layer runs: 1 when it is done, 0 when not, or a negative
// code. Not called again after the end or an error; then `state` is the layer's again. Never called
// by two threads at once. It has to end with an error once a rank is gone or the communicator has
// failed, as the host's own requests do.
typedef int (*host_coll_pending_fn)(void *state);

// What is called with a communicator that was made or is freed, and `param`: HOST_SUCCESS, or a
// negative code.
typedef int (*host_comm_hook_fn)(struct host_comm_t *comm, void *param);

// A condition: what a thread or task sleeps on, and a completion signals. All bytes zero
// (CRT_COND_INIT) is a new one. Wait and signal alternate; one signal that comes before its wait is
// kept.
typedef struct crt_cond_t {
    // State, attachments and signals.
    uint32_t word;
    uint32_t reserved;
    // The task that waits.
    void *task;
} crt_cond_t;

// What a tasking runtime lends to the host, so that a task waits without its thread. It grows at its end
// only, and `size` says where that is: functions beyond are NULL.
typedef struct crt_hooks_t {
    // CRT_HOOKS_MAGIC.
    uint64_t magic;
    // sizeof(crt_hooks_t).
    size_t size;
    // CRT_CAN_SUSPEND, CRT_CAN_YIELD, or both. Each claimed function must be set.
    uint32_t claims;
    // Zero.
    uint32_t reserved;
    // The task that calls; NULL outside of any, where a wait blocks the thread.
    void *(*running)(void);
    // Takes the calling task, which is `task`, off its thread until it is resumed. May return early.
    void (*suspend)(void *task);
    // Lets a task go on. Comes from any thread, maybe before `suspend`, which then returns at once; must
    // neither block nor run the task itself. None comes, or is under way, once the wait has returned.
    void (*resume)(void *task);
    // Runs another task on this thread, if there is one.
    void (*yield_now)(void);
} crt_hooks_t;

// Copies to `size` flat bytes at `dest` what lies `offset` bytes into the `count` runs of `iov`, each of
// the kind (HOST_HMEM_*) that `iface` says; kinds may be mixed. Returns when it is done, with the bytes
// copied or a negative libfabric errno: -FI_ENOSYS (-38) for a kind that it does not know. Any thread of
// the process may call it, several at once; it calls nothing of the host.
typedef ptrdiff_t (*host_copy_from_hmem_fn)(void *dest,
                                            size_t size,
                                            const struct iovec *iov,
                                            const uint32_t *iface,
                                            size_t count,
                                            uint64_t offset);

// Copies `size` flat bytes at `src` to device memory; otherwise as host_copy_from_hmem_fn.
typedef ptrdiff_t (*host_copy_to_hmem_fn)(const struct iovec *iov,
                                          const uint32_t *iface,
                                          size_t count,
                                          uint64_t offset,
                                          const void *src,
                                          size_t size);

// Copies blocks of device memory of kind `iface` at regular distances to `size` flat bytes at `dest`, one
// after the other: count[1] rows of count[0] blocks of `block` bytes. Block i of row j begins
// i * stride[0] + j * stride[1] bytes after `base`. Otherwise as host_copy_from_hmem_fn.
typedef ptrdiff_t (*host_copy_from_strided_fn)(void *dest,
                                               size_t size,
                                               const void *base,
                                               uint32_t iface,
                                               size_t block,
                                               const size_t *stride,
                                               const size_t *count);

// Copies `size` flat bytes at `src` to blocks of device memory; otherwise as host_copy_from_strided_fn.
typedef ptrdiff_t (*host_copy_to_strided_fn)(void *base,
                                             uint32_t iface,
                                             size_t block,
                                             const size_t *stride,
                                             const size_t *count,
                                             const void *src,
                                             size_t size);

// Starts the copy of host_copy_from_hmem_fn on the program's `stream` and returns before it is complete.
// Writes an event for host_event_query_fn, or NULL if the copy is complete already. All memory stays until
// the event is over. Returns the bytes that are being copied, or a negative libfabric errno if no copy began.
// After -FI_EAGAIN (-11) the synchronous function is called instead.
typedef ptrdiff_t (*host_copy_from_async_fn)(void *stream,
                                             void *dest,
                                             size_t size,
                                             const struct iovec *iov,
                                             const uint32_t *iface,
                                             size_t count,
                                             uint64_t offset,
                                             void **event);

// Starts the copy of host_copy_to_hmem_fn; otherwise as host_copy_from_async_fn.
typedef ptrdiff_t (*host_copy_to_async_fn)(void *stream,
                                           const struct iovec *iov,
                                           const uint32_t *iface,
                                           size_t count,
                                           uint64_t offset,
                                           const void *src,
                                           size_t size,
                                           void **event);

// The state of such a copy, without waiting: 0 while it is under way, 1 when it is complete, a negative
// libfabric errno when it failed. With the last two answers the event is over, and is not asked for again.
// Any thread of the process may call it, several at once; it calls nothing of the host.
typedef int32_t (*host_event_query_fn)(void *event);

// How a program has device memory reached. It grows at its end only, and `size` says where that is:
// functions beyond are NULL.
typedef struct host_overrides_t {
    // HOST_OVERRIDES_MAGIC.
    uint64_t magic;
    // sizeof(host_overrides_t).
    size_t size;
    // Device to host.
    host_copy_from_hmem_fn copy_from_hmem_iov;
    // Host to device.
    host_copy_to_hmem_fn copy_to_hmem_iov;
    // Blocks at regular distances, device to host: called once for a strided buffer, and for an indexed one
    // that is rows of equal blocks. For NULL the functions above are called, with up to 256 runs at a time.
    host_copy_from_strided_fn copy_from_hmem_strided;
    // The same, host to device.
    host_copy_to_strided_fn copy_to_hmem_strided;
    // Copies that are complete later, device to host: called for large transfers of a buffer that the
    // transport takes as it is, if query_event is set too. Copies then overlap each other and the network.
    host_copy_from_async_fn copy_from_hmem_async;
    // The same, host to device.
    host_copy_to_async_fn copy_to_hmem_async;
    // Asks for the state of such copies.
    host_event_query_fn query_event;
    // Passed to the functions for such copies as it is.
    void *stream;
} host_overrides_t;

// What kernels start operations through, by the functions of host_xpu_device.h: the layout of libfabric's struct
// fid_xpu_ep. Passed to kernels by value.
typedef struct host_xpu_ep_t {
    // libfabric's FI_CLASS_EP.
    uint32_t fclass;
    // HOST_XPU_PROXY.
    uint32_t prov_id;
    // The ring, as the device reaches it.
    uint64_t prov_ctx;
} host_xpu_ep_t;

// A window as kernels name it. Passed by value.
typedef struct host_xpu_win_t {
    // Which of the ring's windows it is.
    uint32_t number;
} host_xpu_win_t;

// What host_win_set_error_handler registers. `code` is what the call is about to return, and
// host_error_text() says more.
typedef void (*host_win_error_fn)(struct host_win_t *win, int code, void *data);

// A window that is being made, as a hook sees it. It grows at its end only: `size` says what a host gives.
typedef struct host_new_win_t {
    // sizeof(host_new_win_t).
    size_t size;
    // This process's rank in the window.
    int rank;
    // Ranks of the window.
    int ranks;
    // HOST_WIN_*.
    int kind;
    // Zero.
    int reserved;
    // Which functions it got: shm, mixed or btl.
    const char *table_name;
    // This rank's memory.
    void *base;
    // Its bytes.
    size_t bytes;
} host_new_win_t;

// One call of an entry, checked: the epoch allows it, and what it reaches lies in the target's memory.
// What has no meaning for the entry is zero. It grows at its end only: `size` says what a host gives.
typedef struct host_rma_call_t {
    // sizeof(host_rma_call_t).
    size_t size;
    // HOST_RMA_*.
    size_t entry;
    // The target's rank. Of shared_query negative for the first rank that has memory.
    int target;
    // HOST_LOCK_* of lock and unlock; negative where no lock was taken.
    int lock;
    // HOST_MODE_*.
    uint32_t assertion;
    // Of test: set by the entry where the exposure is over.
    int done;
    // Where the target's elements begin: in this process for a window whose table is shm, else in the
    // target's.
    uint64_t address;
    // The origin's buffer; of get and rget the one that is written.
    void *origin;
    // Where fetching calls put what was at the target.
    void *result;
    // What compare_and_swap compares with.
    const void *compare;
    // Elements; contiguous at both ends unless the type has HOST_WITH_GAPS.
    size_t count;
    // Their type; with HOST_ON_DEVICE if `origin` is memory of a device, which only the transport may touch.
    int datatype;
    // The operation of accumulates.
    int op;
    // The ranks of start, complete and post.
    const size_t *group;
    // How many there are.
    size_t group_count;
    // The memory of attach and detach; of shared_query set by the entry.
    void *base;
    // Its bytes; of shared_query set by the entry.
    size_t bytes;
    // Of shared_query: the target's displacement unit, set by the entry.
    uint32_t unit;
    // Zero.
    int reserved;
    // The hints of set_info, which stay the host's; of get_info set by the entry to hints of its own, which
    // become the host's.
    struct host_info_t *info;
} host_rma_call_t;

// An entry: HOST_SUCCESS, or a negative code. `data` is that of the table.
typedef int (*host_rma_fn)(void *data,
                           const struct host_rma_layer_t *layer,
                           struct host_rma_call_t *call);

// The functions of one window. As a hook gets it, each that the host knows is host_rma_previous, which stands
// for what is there; calls go past those that a hook leaves so, and NULL is refused. No entry ever moves:
// new functions take the places after those that there are. Those are NULL where a host does not know
// them, and a hook that sets one all the same is refused. A hook writes no further than `size`.
typedef struct host_rma_table_t {
    // HOST_RMA_TABLE_MAGIC.
    uint64_t magic;
    // sizeof(host_rma_table_t).
    size_t size;
    // What this window's entries are called with.
    void *data;
    // The functions, at the places HOST_RMA_*.
    host_rma_fn entries[HOST_RMA_ROOM];
} host_rma_table_t;

// What is called with every window that is made, before its creation returns: may replace entries of
// `table` and set its data. HOST_SUCCESS, or a negative code, with which the creation fails at all
// ranks.
typedef int (*host_win_hook_fn)(const struct host_new_win_t *win,
                                struct host_rma_table_t *table,
                                void *param);

// What is called when a window ends for which the hook had succeeded, or that did not come to be.
// `data` is what the hook has set in the table.
typedef void (*host_win_ended_fn)(void *data, void *param);

// A function that host_request_detach calls when the operation is complete. `status` is 0 or a
// negative code of the transport.
typedef void (*host_completed_fn)(void *data, int status);

// A run of elements in an indexed layout.
typedef struct host_block_t {
    // Elements from the start of the buffer to the run.
    size_t displacement;
    // Elements in the run.
    size_t length;
} host_block_t;

// A run of elements that says itself where it is.
typedef struct host_run_t {
    // Its first element, named as any buffer: on the host or on a device.
    void *address;
    // Elements in the run.
    size_t length;
} host_run_t;

// Where the elements of one side of a transfer lie, relative to the start of its buffer. Strided: `blocks` is
// NULL, and there are `count` runs of `length` elements whose starts are `stride` elements apart; runs must
// not overlap. Indexed: `blocks` points to `count` runs, and `length` and `stride` are zero. Absolute: `runs` points to
// `count` runs, each in the memory that it names, and everything else is zero; the buffer of the call is NULL. Only origins
// have such layouts. A call copies what it needs before it returns. The table grows at its end only.
typedef struct host_layout_t {
    // HOST_LAYOUT_MAGIC.
    uint64_t magic;
    // sizeof(host_layout_t).
    size_t size;
    // The runs of an indexed layout; NULL for a strided one.
    const struct host_block_t *blocks;
    // Number of runs.
    size_t count;
    // Elements in each run of a strided layout.
    size_t length;
    // Elements from the start of a run to the start of the next.
    size_t stride;
    // The element type. With HOST_ON_DEVICE in an origin's layout, a buffer in host memory is refused; a
    // target's layout has no use for it.
    int datatype;
    // Zero.
    int reserved;
    // The runs of an absolute layout; NULL for others.
    const struct host_run_t *runs;
} host_layout_t;

// The arguments of a transfer or an atomic update, those that it has a meaning for; the others are zero. They grow at the
// end only, and `size` says where that is.
typedef struct host_rma_args_t {
    // HOST_RMA_ARGS_MAGIC.
    uint64_t magic;
    // sizeof(host_rma_args_t).
    size_t size;
    // The origin's buffer; of a get the one that is written. May be NULL with HOST_NO_OP.
    void *origin;
    // Where fetching calls put what was at the target.
    void *result;
    // What a compare_and_swap compares with.
    const void *compare;
    // Elements of a side without a layout; fetch_and_op and compare_and_swap take one.
    size_t count;
    // Where the target's elements begin, in its units.
    uint64_t displacement;
    // Their type. With HOST_ON_DEVICE host memory is refused.
    int datatype;
    // The operation of accumulates.
    int op;
    // The target's rank, or HOST_PROC_NULL.
    int target;
    // The counter of a HOST_RMA_PUT_NOTIFY, 0 to HOST_WIN_COUNTERS - 1.
    int counter;
    // Where the origin's elements lie; NULL: together. Of put, get and accumulate only, as the target's. Both sides have the
    // same type and number of elements.
    const struct host_layout_t *origin_layout;
    // Where the target's elements lie from `displacement` on; NULL: together.
    const struct host_layout_t *target_layout;
} host_rma_args_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The text of the last error of this thread, valid until its next one; empty if there was none.
const char *host_error_text(void);

// The version of the library that the program runs with, such as "0.2.0". Compare it with HOST_VERSION, the
// version of the header that the program was compiled with. The text is static; any thread may call, at any
// time.
const char *host_library_version(void);

// Calls a collective of a communicator, HOST_COLL_*, and waits until it is done. host_calls.h has a function for each, with
// what it means.
//
// # Safety
// The buffers are good for the elements named, and do not overlap. Lists have a value for each rank.
int host_coll(struct host_comm_t *comm,
              int collective,
              const struct host_coll_args_t *args);

// As host_coll, nonblocking. The arguments and their lists are read before the call returns.
//
// # Safety
// `request` is writable; buffers are good for the elements named until the collective is done.
int host_coll_start(struct host_comm_t *comm,
                    int collective,
                    const struct host_coll_args_t *args,
                    struct host_coll_request_t **request);

// Does what a blocking entry has overridden. Called by entries with what they were called with, or
// other arguments.
//
// # Safety
// The arguments are good for the collective.
int host_coll_previous(void *_data,
                       const struct host_coll_layer_t *layer,
                       struct host_comm_t *comm,
                       int collective,
                       const struct host_coll_args_t *args);

// Begins what a nonblocking entry has overridden.
//
// # Safety
// The arguments are good for the collective, its buffers until it is done; `request` is writable.
int host_coll_previous_start(void *_data,
                             const struct host_coll_layer_t *layer,
                             struct host_comm_t *comm,
                             int collective,
                             const struct host_coll_args_t *args,
                             struct host_coll_request_t **request);

// Copies the collectives of a communicator into a table, so that a layer can replace some of them. The
// caller sets `magic` and `size` before the call. The host sets each entry to host_coll_previous or
// host_coll_previous_start, which call the present collective. It sets an entry to NULL if the blocking
// form is absent or if this host does not know the collective, and `data` to NULL.
//
// # Safety
// `table` is NULL or a table.
int host_comm_get_table(struct host_comm_t *comm,
                        struct host_coll_table_t *table);

// Overrides the collectives of a communicator; in its create hooks only. Usually the table is what
// host_comm_get_table has copied, with some entries replaced. It is copied, and shared with other
// communicators for which equal tables override the same. HOST_ERR_ARG: a blocking entry is set and its
// nonblocking one is NULL, or an entry is set that this host does not know; nothing has changed.
//
// # Safety
// `table` is NULL or a table, whose functions any thread may call with its data as long as
// communicators have it.
int host_comm_override(struct host_comm_t *comm,
                       const struct host_coll_table_t *table);

// Undoes the last host_comm_override of a communicator; in its destroy hooks only, once for each
// override, so that the layer above finds its own.
int host_comm_restore(struct host_comm_t *comm);

// Makes the request of a collective that a layer runs itself, for a nonblocking entry to give.
//
// # Safety
// `test` may be called with `state`, by any thread, until it says that the collective is done.
// `request` is writable.
int host_coll_request_of_layer(struct host_comm_t *comm,
                               host_coll_pending_fn test,
                               void *state,
                               struct host_coll_request_t **request);

// Waits until each of `count` collectives is done, and sets the handles to NULL; the first error is returned after all have
// ended.
//
// # Safety
// `requests` is NULL or `count` writable places.
int host_coll_waitall(size_t count,
                      struct host_coll_request_t **requests);

// Makes progress; sets `done` to whether the collective is done, and if it is, the handle to NULL.
//
// # Safety
// `request` and `done` are NULL or writable.
int host_coll_test(struct host_coll_request_t **request, int *done);

// Gives an attribute of a communicator. `found` is set to whether it has that attribute, and `value` only if
// so; the host's attributes are those of the world. HOST_ERR_ARG: the host knows no such attribute.
//
// # Safety
// `value` and `found` are writable.
int host_comm_get_attr(struct host_comm_t *handle,
                       int attribute,
                       int *value,
                       int *found);

// All ranks of the job; the first call is collective. Ends with host_finalize.
//
// # Safety
// `made` is writable.
int host_comm_world(struct host_comm_t **made);

// The same ranks with another context; collective.
//
// # Safety
// `made` is writable.
int host_comm_dup(struct host_comm_t *parent, struct host_comm_t **made);

// A communicator for each color, its ranks in the order of their keys; NULL for ranks whose color
// is negative (HOST_UNDEFINED). Collective.
//
// # Safety
// `made` is writable.
int host_comm_split(struct host_comm_t *parent, int color, int key, struct host_comm_t **made);

// A communicator of some of the parent's ranks, in the order given; NULL at the others. Collective
// over the parent.
//
// # Safety
// `members` are `count` ranks of the parent; `made` is writable.
int host_comm_create(struct host_comm_t *parent,
                     const int *members,
                     size_t count,
                     struct host_comm_t **made);

// Ends a communicator and sets the handle to NULL; collective. Waits for collectives under way. The
// world is refused: host_finalize ends it. A failed destroy hook is reported; the communicator has
// ended all the same.
//
// # Safety
// `comm` is NULL or writable.
int host_comm_free(struct host_comm_t **comm);

// This process's rank in a communicator, or a negative code.
int host_comm_rank(struct host_comm_t *comm);

// Ranks of a communicator, or a negative code.
int host_comm_size(struct host_comm_t *comm);

// The node of a rank of a communicator, or a negative code: ranks with the same number share memory.
int host_comm_node(struct host_comm_t *comm,
                   int of);

// Registers hooks of a layer, either or both: `create` is called with every communicator made from
// here on, from the highest layer to the lowest, and `destroy` when one is freed, in the reverse
// order; each with its own `param`. Every rank registers the same layers. A create hook that fails
// makes the creation fail at all ranks, and the hooks that had succeeded are undone by the destroy
// hooks registered with them, the last first. The one that failed cleans up for itself; the table that
// the communicator had before it is put back. The handle that hooks see is the one that the creation
// will give.
//
// # Safety
// Any thread may call the functions with `param` until the layer is unregistered and the
// communicators that it saw are freed.
int host_comm_hooks_register(uint32_t layer,
                             host_comm_hook_fn create,
                             host_comm_hook_fn destroy,
                             void *param);

// Forgets the hooks of a layer. The layer is still told of a communicator that it has seen, unless
// the communicator is freed already.
int host_comm_hooks_unregister(uint32_t layer);

// Turns the condition off, and blocks the calling thread or task, as OMP_EXTERNAL says, until
// crt_signal turns it on. Returns at once when the signal came before. HOST_ERR_MISUSE: another
// thread or task waits already.
//
// # Safety
// `condition` is a condition, which stays meanwhile.
int crt_wait(struct crt_cond_t *condition);

// Turns the condition on and wakes its waiter; any thread may call. HOST_ERR_MISUSE: it was
// signalled, and not waited on since.
//
// # Safety
// `condition` is a condition.
int crt_signal(struct crt_cond_t *condition);

// Destroys a condition; afterwards its memory may be freed. HOST_ERR_STATE: a caller waits on the
// condition, or it is attached to a request; the condition stays valid.
//
// # Safety
// `condition` is a condition.
int crt_cond_destroy(struct crt_cond_t *condition);

// Sets the hooks of the tasking runtime; NULL takes them away. Comes before host_init, which provides
// HOST_TASK_MULTIPLE only where hooks are set. Used by waits that begin afterwards.
// HOST_ERR_HOOKS: the table does not hold what it claims, a task waits by the hooks that are set, they
// only suspend and the job has no progress thread, or host_init has refused the task level for want of
// hooks; the earlier hooks stay.
//
// # Safety
// `hooks` is NULL or a table, whose functions stay as long as they are set.
int crt_set_hooks(const struct crt_hooks_t *hooks);

// For headers that try a runtime before they set its hooks: refuses them, with a text for
// host_error_text. Always HOST_ERR_HOOKS.
int crt_refuse_hooks(void);

// Selects whether a blocking call blocks the process, the thread or the task; overrides the
// environment's OMP_EXTERNAL. Call it before host_init. A later call, or a value other than
// OMP_EXTERNAL_*, has no effect.
void omp_set_external(int mode);

// What a blocking call blocks: OMP_EXTERNAL_*. After host_init that of the level provided.
int omp_get_external(void);

// The devices that the host knows of, numbered from 0, or a negative HOST_ERR_* code.
int host_device_count(void);

// What the program can do about devices: 1 it starts operations on host memory, 2 also on device memory, 3
// devices start operations on device memory too (host_device_ring_create), 4 and on host memory; or a negative
// HOST_ERR_* code.
int host_device_level(void);

// Allocates memory on a device, which buffers of calls may be in until host_device_free. The pointer
// is the device's: the host's own loads and stores must not use it.
//
// # Safety
// `memory` is writable.
int host_device_alloc(int device,
                      size_t size,
                      void **memory);

// Gives back what host_device_alloc gave, and sets the pointer to NULL. No call uses it any more.
//
// # Safety
// `memory` is writable.
int host_device_free(void **memory);

// Copies `size` bytes of device memory to host memory, and returns when they are there.
//
// # Safety
// `into` is writable for `size` bytes.
int host_device_read(void *into, void *from, size_t size);

// Copies `size` bytes of host memory to device memory, and returns when they are there.
//
// # Safety
// `from` is readable for `size` bytes.
int host_device_write(void *to, const void *from, size_t size);

// Tells the host that `size` bytes at `host` are mapped at `memory` on a device, as
// omp_target_associate_ptr tells OpenMP; until host_device_disassociate. A variable may be mapped on
// several devices; its pointer alone then means the one of the lowest number.
//
// # Safety
// The range at `memory` is memory of that device until then.
int host_device_associate(const void *host,
                          size_t size,
                          int device,
                          const void *memory);

// Removes the association of `host` with memory of a device (see host_device_associate).
int host_device_disassociate(const void *host, int device);

// Where a pointer's memory is: its device and the address there; -1 and the pointer for host memory.
//
// # Safety
// `device` and `memory` are writable.
int host_target_location(const void *pointer_,
                         int *device,
                         void **memory);

// The device address that a pointer names: a host pointer that is mapped there, or memory of
// the device itself. An error if there is no such address.
//
// # Safety
// `memory` is writable.
int host_target_pointer(const void *pointer_, int device, void **memory);

// Packs a device and the address there of what a pointer names into one pointer, which every call that
// takes a buffer or a window's memory takes in its place, collectives too; -1 says host memory, of a
// pointer that is mapped on a device too. (The other ways: the pointer itself, and HOST_ON_DEVICE added
// to the type where a call takes one.)
//
// # Safety
// `encoded` is writable.
int host_encode_location(const void *pointer_,
                         int device,
                         void **encoded);

// Sets how device memory is reached, for all kinds: at once, in windows and buffers that exist already
// too. Operations under way keep earlier functions for their local buffers. In the
// place of a function that is NULL comes the transport's own, which knows CUDA only; NULL instead of a table
// is a table of none. The provider is offered the functions too: host_query_overrides has its answer. A single
// function is offered only where CUDA is the only kind of memory that the provider reaches.
//
// # Safety
// `overrides` is NULL or a table. All functions that were ever set do what their types say, until host_finalize has returned.
int host_set_overrides(const struct host_overrides_t *overrides);

// Asks whether the provider uses the functions of host_set_overrides. `answer` becomes a libfabric errno: 0 if
// it does; -FI_ENOSYS (-38) if it does not support this, or was offered none; another negative one with
// which it refused them; -FI_ENODATA (-61) if none are set. Where it is not 0, the transport's own copies use the
// functions, and memory that the provider reaches by itself does not.
//
// # Safety
// `answer` is writable.
int host_query_overrides(int *answer);

// Tells the host of a device of a kind, and of its number among those of its kind. `device` becomes its
// number in calls and in "device_num". The host gives out no memory of it: see host_device_add_memory.
// It starts no operations unless host_device_starts says so.
// Devices stay until host_finalize.
//
// # Safety
// `name` is a string, `device` is writable.
int host_device_add(const char *name,
                    uint32_t iface,
                    uint64_t number,
                    int *device);

// Says that kernels of a device that the program added read and write host memory, with atomics, and so start
// operations through rings (host_device_ring_create).
int host_device_starts(int device);

// Tells the host of `size` bytes of memory on a device, which buffers and windows may lie in until
// host_device_forget_memory. The host reaches for it by the copy functions only.
//
// # Safety
// The range is memory of that device until then.
int host_device_add_memory(int device, const void *memory, size_t size);

// Takes back what host_device_add_memory said of the memory that begins at `memory`. No operation and
// no window uses it any more.
int host_device_forget_memory(const void *memory);

// Makes a ring of at least `slots` commands (1 to 65536) for a device: pinned and mapped for a CUDA device, at the
// host's own address for others. HOST_ERR_WIN: the level of device support is below 3; HOST_ERR_ARG: the
// device cannot start operations.
//
// # Safety
// `made` is writable.
int host_device_ring_create(int device,
                            size_t slots,
                            struct host_device_ring_t **made);

// The memory of a ring at the host, for a program that maps it for a device of its own: the device's address
// then takes the place of `prov_ctx`. It stays until host_device_ring_free.
//
// # Safety
// `base` and `size` are writable.
int host_device_ring_memory(struct host_device_ring_t *handle,
                            void **base,
                            size_t *size);

// What kernels of the ring's device start operations through.
//
// # Safety
// `ep` is writable.
int host_device_ring_export(struct host_device_ring_t *handle, struct host_xpu_ep_t *ep);

// Lets commands of a ring use a window, of which a lock or lock_all epoch is open when they come; `known` is what
// kernels name it by. The window is freed after the ring.
//
// # Safety
// `win` is a window that no other thread frees; `known` is writable.
int host_device_ring_add_window(struct host_device_ring_t *handle,
                                struct host_win_t *win,
                                struct host_xpu_win_t *known);

// How many operations of a ring succeeded, and how many failed. HOST_ERR_STATE: the ring is closed, by the program
// or because the device wrote what no kernel of host_xpu_device.h writes; the numbers are there all the same.
//
// # Safety
// `succeeded` and `failed` are writable.
int host_device_ring_status(struct host_device_ring_t *handle,
                            uint64_t *succeeded,
                            uint64_t *failed);

// Ends the service of a ring: waits for what is under way. Kernels that still wait, or post, are told -ECANCELED.
// Not called from a function that progress calls.
int host_device_ring_close(struct host_device_ring_t *handle);

// Closes a ring, gives its memory back, and sets the handle to NULL.
//
// # Safety
// `handle` points to NULL or a ring. The kernels that use it have ended, and no other thread uses it.
int host_device_ring_free(struct host_device_ring_t **handle);

// Leaves the job in good order; collective. Before it, the program frees its windows and all
// communicators except the world.
int host_finalize(void);

// Joins the job that this process was started in by `host-stub launch`, mpirun or srun, or makes one
// of its own, for a thread level HOST_THREAD_*. `provided`, unless NULL, gets the level that the
// program has to keep to; OMP_EXTERNAL or omp_set_external can make it another than was asked for.
// HOST_TASK_MULTIPLE is provided only where a tasking runtime's hooks are set (crt_set_hooks,
// crt_omp_yield_in_waits), else HOST_THREAD_MULTIPLE and a warning.
//
// # Safety
// The program keeps to the level provided. `provided` is writable or NULL.
int host_init_thread(int required,
                     int *provided);

// This process's rank, or a negative code.
int host_rank(void);

// Ranks of the job, or a negative code.
int host_size(void);

// Waits until every rank is here; collective.
int host_barrier(void);

// Makes progress once: completes what can be completed, and calls what waits for it.
int host_progress(void);

// Allocates `size` zeroed bytes on pages of their own, good to make windows of and to transfer from.
// They belong to no window and need no job.
//
// # Safety
// `base` is NULL or writable.
int host_alloc_mem(size_t size,
                   void **base);

// Frees memory of host_alloc_mem. HOST_ERR_ARG: the memory is not from host_alloc_mem, or is
// already freed.
//
// # Safety
// Nothing uses it: no window is made of it and no operation is under way.
int host_free_mem(void *base);

// Sets the function that is called when a call on a window, or the wait for a request of it, is about to
// return an error; NULL for none, as for a new window. It runs inside of the failing call, which returns its
// code afterwards; it may call the host, whose errors in the same task, or thread outside of any, then call no
// handler. Errors of the creation have no window to be told to. Where host_win_free fails and the window is gone,
// `win` only says which it was.
//
// # Safety
// Any thread may call `handler` with `data` until another is set or the window was freed.
int host_win_set_error_handler(struct host_win_t *win,
                               host_win_error_fn handler,
                               void *data);

// Registers a hook for the windows made from here on, after those that there are; gives an id, or a
// negative code. `ended` may be NULL. Every rank registers the same hooks in the same order, while no
// window is being made.
//
// # Safety
// Any thread may call the functions with `param`, and the entries that they set, as long as there are
// windows that the hook saw.
int host_win_hook_register(host_win_hook_fn created,
                           host_win_ended_fn ended,
                           void *param);

// Ends a registration. Windows that were made under it keep what the hook made of them.
int host_win_hook_remove(int id);

// Makes hints, none yet.
//
// # Safety
// `info` is NULL or writable.
int host_info_create(struct host_info_t **info);

// Adds a hint: alloc_shared_noncontig and host_win_huge_pages are true or false, host_win_table is
// auto, shm, mixed or btl, host_ranks_per_node is a number, and device_num that of the device of
// this rank's memory, -1 for the host. MPI's no_locks, same_size and same_disp_unit are true or false,
// accumulate_ordering is none or some of rar,raw,war,waw, accumulate_ops is same_op or same_op_no_op, and
// mpi_accumulate_granularity is a number of bytes. Other keys are ignored.
//
// # Safety
// `key` and `value` are NULL or texts.
int host_info_set(struct host_info_t *info,
                  const char *key,
                  const char *value);

// Ends hints, and sets the handle to NULL. Windows made with them stay as they are.
//
// # Safety
// `info` is NULL or writable.
int host_info_free(struct host_info_t **info);

// Copies the value of a key to `value`, cut to `room` bytes with its zero byte, and its whole length without
// that to `length`; -1 for a key that the hints do not have. Each answer may be NULL.
//
// # Safety
// `key` is NULL or a text; `value` is NULL or has room for `room` bytes; `length` is NULL or writable.
int host_info_get(struct host_info_t *info,
                  const char *key,
                  size_t room,
                  char *value,
                  ptrdiff_t *length);

// Changes hints of a window; collective, with the same hints on every process. Completes this process's
// operations first. MPI's keys of host_info_set can change. HOST_ERR_WIN, on every process, and nothing
// changes: another key with a value that is not in force, hints that differ between processes, or no_locks
// while a lock is held.
//
// # Safety
// As for every call on a window: no other thread frees it meanwhile.
int host_win_set_info(struct host_win_t *win,
                      struct host_info_t *info);

// Makes hints of what is in force for a window, to be ended by host_info_free.
//
// # Safety
// `info` is NULL or writable.
int host_win_get_info(struct host_win_t *win, struct host_info_t **info);

// Does what an entry has replaced, with the arguments of the call; at most once for request forms.
// Of the call only what the entry sets is written.
//
// # Safety
// `layer` and `call` are NULL, or what an entry was called with that has not returned; one thread at a
// time calls with them.
int host_rma_previous(void *_data,
                      const struct host_rma_layer_t *layer,
                      struct host_rma_call_t *call);

// How many puts with notification have arrived at a counter of this process. Their bytes may be read.
//
// # Safety
// `win` is live. `arrived` is NULL or writable.
int host_win_notifications(int counter,
                           uint64_t *arrived,
                           struct host_win_t *win);

// Waits until at least `at_least` puts with notification in total have arrived at a counter of this process. An error if a
// process of the window is lost meanwhile.
//
// # Safety
// `win` is live.
int host_win_wait_notified(int counter,
                           uint64_t at_least,
                           struct host_win_t *win);

// Makes a window of a kind, HOST_WIN_CREATE and so on, over a communicator or, where that is NULL, all ranks of the job;
// with hints or NULL. Collective. host_calls.h has a function for each kind. `base` is looked at by HOST_WIN_CREATE alone,
// and `size` and `unit` by all but HOST_WIN_DYNAMIC.
//
// # Safety
// `win` is NULL or writable. Memory at `base` stays until the window was freed.
int host_win_make(int kind,
                  struct host_comm_t *over,
                  void *base,
                  size_t size,
                  uint32_t unit,
                  struct host_info_t *info,
                  struct host_win_t **win);

// Attaches this rank's memory to a dynamic window; local.
//
// # Safety
// The memory stays until it is detached or the window freed.
int host_win_attach(struct host_win_t *win, void *base, size_t size);

// Detaches memory that was attached at this address; local.
//
// # Safety
// As for every call on a window: no other thread frees it meanwhile.
int host_win_detach(struct host_win_t *win, const void *base);

// Where the memory of a rank is in this process, its bytes, and its displacement unit; a negative
// rank asks for the first that has any. Each of the answers may be NULL. HOST_ERR_WIN: it is not
// mapped here.
//
// # Safety
// Answers that are not NULL are writable.
int host_win_shared_query(struct host_win_t *win,
                          int target,
                          void **base,
                          size_t *size,
                          uint32_t *unit);

// Waits until each of `count` operations is complete, and sets the handles to NULL; the first error is returned after all
// have ended. HOST_ERR_LEVEL: the handles are as they were.
//
// # Safety
// `requests` is NULL or `count` places, each with NULL or a request that no other thread uses.
int host_waitall(size_t count,
                 struct host_request_t **requests);

// Waits for one of `count` requests, sets its handle to NULL, and `index` to its place; to `count`
// when all have ended.
//
// # Safety
// As for host_waitall; `index` is writable.
int host_waitany(size_t count, struct host_request_t **requests, size_t *index);

// Makes progress; sets `done` to whether the operation is complete, and if it is, the handle to NULL,
// also where it failed, which is returned.
//
// # Safety
// `request` points to NULL or to a request that no other thread uses; `done` is writable.
int host_test(struct host_request_t **request,
              int *done);

// Has a condition signalled when the operation is complete, or at once if it is. The request still
// has to be ended, by host_wait for one, which then does not block. A request signals one condition.
//
// # Safety
// `condition` stays until it was signalled.
int host_request_attach(struct host_request_t *request,
                        struct crt_cond_t *condition);

// Lets an operation end by itself, and sets the handle to NULL: `call` is called once with `data`
// when it is complete, on whatever thread makes progress, or on this one if it is complete already.
// It must not wait. Needs a progress thread, or a thread that waits, tests or calls host_progress.
//
// # Safety
// `request` points to a request that no other thread uses; buffers and window stay until `call` was
// called.
int host_request_detach(struct host_request_t **request, host_completed_fn call, void *data);

// Begins a transfer or an atomic update: HOST_RMA_PUT to HOST_RMA_COMPARE_AND_SWAP, or HOST_RMA_PUT_NOTIFY. host_calls.h has a
// function for each, with what it means.
//
// # Safety
// `win` is live, and layouts are tables. The operation's buffers are as its function in host_calls.h says until it is complete.
int host_rma(size_t kind,
             const struct host_rma_args_t *args,
             struct host_win_t *win);

// As host_rma, with a request: HOST_RMA_PUT to HOST_RMA_GET_ACCUMULATE, in lock and lock_all epochs only.
//
// # Safety
// As for host_rma; `request` is writable.
int host_rma_start(size_t kind,
                   const struct host_rma_args_t *args,
                   struct host_win_t *win,
                   struct host_request_t **request);

// Synchronises a window: HOST_RMA_FENCE to HOST_RMA_FLUSH_LOCAL_ALL, HOST_RMA_COMPLETE, HOST_RMA_WAIT or HOST_RMA_SYNC.
// host_calls.h has a function for each, with what it means. `lock` is HOST_LOCK_*, of a lock; the `target` of a lock, unlock
// or flush of one rank counts, and the `assertion` of a fence, lock or lock_all; the others are not looked at.
//
// # Safety
// No other thread frees the window meanwhile.
int host_win_synchronize(size_t entry,
                         int lock,
                         int target,
                         uint32_t assertion,
                         struct host_win_t *win);

// Opens an access epoch to a group of ranks of the window; with 0 or HOST_MODE_NOCHECK.
//
// # Safety
// No other thread frees the window meanwhile.
// `group` is NULL or `count` ranks.
int host_win_start(const int *group, size_t count, uint32_t assertion, struct host_win_t *win);

// Opens this rank's memory to a group of ranks; with 0, HOST_MODE_NOCHECK, NOSTORE or NOPUT. Opens nothing where it fails.
//
// # Safety
// No other thread frees the window meanwhile.
// `group` is NULL or `count` ranks.
int host_win_post(const int *group,
                  size_t count,
                  uint32_t assertion,
                  struct host_win_t *win);

// Sets `done` to whether the group of host_win_post has completed; if so, or if that fails, closes the exposure.
//
// # Safety
// No other thread frees the window meanwhile.
// `done` is NULL or writable.
int host_win_test(int *done,
                  struct host_win_t *win);

// This rank's memory of a window; NULL for no window.
//
// # Safety
// `win` is NULL or a window that is not freed.
void *host_win_base(struct host_win_t *win);

// Frees a window and sets the handle to NULL; collective. HOST_ERR_STATE: a request of it is open, or a ring uses it.
// HOST_ERR_WIN: an epoch is open. After these, and after HOST_ERR_LEVEL, the window and its handle are as they were;
// after any other error the window is gone.
//
// # Safety
// `win` points to NULL or to a window that no other thread uses.
int host_win_free(struct host_win_t **win);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HOST_STUB_H */

/* The calls by their own names: host_allreduce and the like. */
#include "host_calls.h"
