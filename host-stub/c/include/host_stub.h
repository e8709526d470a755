/*
 * The host as C programs see it: jobs, windows, one-sided communication, and how calls wait.
 *
 * Link with -lhost_stub. Unless said otherwise functions return HOST_SUCCESS or a negative HOST_ERR_*
 * code, and host_error_text() then has the reason. Any thread may call, within the thread level.
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
/* The version of this header; host_library_version() returns the version of the library. */
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

// The call succeeded.
#define HOST_SUCCESS 0

// An argument is wrong; the call had no effect.
#define HOST_ERR_ARG -1

// The job, window, request or condition is not in a state for the call, which had no effect.
#define HOST_ERR_STATE -2

// The process could not join the job, or the job failed.
#define HOST_ERR_JOB -3

// The call does not fit the window or its epoch; nothing was sent.
#define HOST_ERR_WIN -4

// The thread level provided does not allow the call to this thread.
#define HOST_ERR_LEVEL -5

// The transport failed to execute an operation that was sent.
#define HOST_ERR_TRANSPORT -6

// The hooks of a tasking runtime do not do what they claim.
#define HOST_ERR_HOOKS -7

// Two consecutive waits, or signals, of a condition; the condition is unchanged.
#define HOST_ERR_MISUSE -8

// A bug of the host.
#define HOST_ERR_PANIC -9

// A communicator's creation or a collective failed, or the ranks made different calls.
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

// A flag of an entry: its functions take buffers on devices, except host_coll_previous and host_coll_previous_start. If a
// buffer is on a device, the host calls the function with HOST_ON_DEVICE in the type and with the buffers as the program
// named them; host_target_location tells where each buffer lies. Other functions get copies in host memory.
#define HOST_COLL_TAKES_DEVICES 1

// The magic number of a host_coll_args_t.
#define HOST_COLL_ARGS_MAGIC 3550897271746023240

// The magic number of a host_coll_table_t.
#define HOST_COLL_TABLE_MAGIC 3552301356684627784

// The attribute of the world with the level of device support; see host_device_level.
#define HOST_ATTR_DEVICE_LEVEL 1

// The color of a rank that wants no new communicator.
#define HOST_UNDEFINED -1

// The default number of a program's own layer. A higher number is nearer to the program; the host's
// node-local collectives are layer 100. The lowest layer's create hook runs last, so that calls
// come to its table first: a layer that is to see every call needs a number below 100.
#define HOST_LAYER_PROGRAM 1000

// The runtime can take a task off its thread and put it back: `running`, `suspend`, `resume`.
#define CRT_CAN_SUSPEND 1

// The runtime can run another task meanwhile: `running`, `yield_now`.
#define CRT_CAN_YIELD 2

// The magic number of a crt_hooks_t.
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

// The magic number of a host_overrides_t.
#define HOST_OVERRIDES_MAGIC 3553997954665893704

// The host's functions serve an endpoint. libfabric's providers have the numbers from 1 on.
#define HOST_XPU_PROXY 1752134516

// One thread.
#define HOST_THREAD_SINGLE 0

// Only the thread that called host_init makes calls.
#define HOST_THREAD_FUNNELED 1

// Any thread makes calls, one at a time.
#define HOST_THREAD_SERIALIZED 2

// Several threads make calls at the same time.
#define HOST_THREAD_MULTIPLE 3

// Several tasks make calls at the same time, and a blocking call blocks its task only.
#define HOST_TASK_MULTIPLE 4

// The magic number of a host_layout_t.
#define HOST_LAYOUT_MAGIC 3555945176873783112

// Counters that each process of a window has for puts with notification.
#define HOST_WIN_COUNTERS 8

// A window of the caller's memory.
#define HOST_WIN_CREATE 0

// A window that owns its memory.
#define HOST_WIN_ALLOCATE 1

// A window that owns memory which every rank may address.
#define HOST_WIN_ALLOCATE_SHARED 2

// A window of memory that ranks attach and detach.
#define HOST_WIN_DYNAMIC 3

// A put that adds one to a counter of the target. A window's table has no entry for it: the host calls the
// table's put.
#define HOST_RMA_PUT_NOTIFY 64

// The magic number of a host_rma_args_t.
#define HOST_RMA_ARGS_MAGIC 3550897271628518216

// A lock that several ranks hold at once.
#define HOST_LOCK_SHARED 0

// A lock that one rank holds alone.
#define HOST_LOCK_EXCLUSIVE 1

// No rank holds a conflicting lock, or the matching post or start was called before.
#define HOST_MODE_NOCHECK 1

// This process has not stored to the window's memory since the last synchronisation.
#define HOST_MODE_NOSTORE 2

// Other processes do not update this process's memory until the next synchronisation.
#define HOST_MODE_NOPUT 4

// This fence ends no communication; the same on every rank.
#define HOST_MODE_NOPRECEDE 8

// This fence begins no communication; the same on every rank.
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

// The magic number of a host_rma_table_t.
#define HOST_RMA_TABLE_MAGIC 3549202997342064456

// Added to the type of a host_rma_call_t: the elements of one side are not contiguous (host_put_layout and
// similar calls), and the call does not tell where they lie. An entry passes such a call to
// host_rma_previous.
#define HOST_WITH_GAPS 512

// The place of an entry among the tables of a communicator, from which host_coll_previous continues.
// Valid as long as the communicator.
typedef struct host_coll_layer_t host_coll_layer_t;

// A collective under way. Ended by host_coll_wait, host_coll_waitall or host_coll_test, which set the
// handle to NULL. A NULL handle stands for a collective that has ended. The handle is never
// dereferenced.
typedef struct host_coll_request_t host_coll_request_t;

// A communicator: ranks of the job with a separate context. The handle is never dereferenced.
typedef struct host_comm_t host_comm_t;

// A ring of commands of one device, which all progress of the host serves: waiting calls, host_progress, and the
// progress thread. The handle is a number and is never dereferenced.
typedef struct host_device_ring_t host_device_ring_t;

// Hints for windows. The handle is never dereferenced.
typedef struct host_info_t host_info_t;

// An operation under way. Ended by host_wait, host_waitall, host_waitany or host_test, which set the
// handle to NULL, or by host_request_detach. For each of these functions, NULL is a request that has
// ended. The handle is never dereferenced: a handle that has ended, or was never a handle, is
// HOST_ERR_ARG.
typedef struct host_request_t host_request_t;

// A layer during one call, from which host_rma_previous continues. Valid on any thread until the entry
// that got it returns, so that a task may wait and continue on another thread.
typedef struct host_rma_layer_t host_rma_layer_t;

// A window: memory of every rank, open to one-sided access.
typedef struct host_win_t host_win_t;

// The places of a buffer's blocks in the v forms. There is one block for each rank, so each list has one value
// for each rank.
typedef struct host_blocks_t {
    // Elements of each block.
    const size_t *counts;
    // The beginning of each block, in elements from the beginning of the buffer.
    const size_t *displacements;
} host_blocks_t;

// The arguments of a collective; arguments that the collective does not use are zero. The structure
// grows at its end only, and `size` tells its length.
typedef struct host_coll_args_t {
    // HOST_COLL_ARGS_MAGIC.
    uint64_t magic;
    // sizeof(host_coll_args_t).
    size_t size;
    // The data that this rank contributes; NULL: the data is in `recv`. For an alltoallv, NULL is allowed
    // only if the lists of `given` are NULL too.
    const void *send;
    // The data that this rank receives; the buffer of a broadcast.
    void *recv;
    // The number of elements of a broadcast or reduction, of this rank's contribution to an allgatherv, and of one
    // block in all others.
    size_t count;
    // The number of elements that each rank gets of a reduce_scatter; NULL: `count` each.
    const size_t *counts;
    // The element type; with HOST_ON_DEVICE if a buffer is on a device. Only an entry with
    // HOST_COLL_TAKES_DEVICES gets buffers on devices.
    int datatype;
    // The operation that combines elements.
    int op;
    // The root's rank.
    int root;
    // Zero.
    int reserved;
    // The places of the blocks of an alltoallv's `send`.
    struct host_blocks_t given;
    // The places of the blocks of an allgatherv's or alltoallv's `recv`.
    struct host_blocks_t taken;
} host_coll_args_t;

// A blocking entry: HOST_SUCCESS when the collective is done, or a negative code. `data` is the
// data of the table.
typedef int (*host_coll_fn)(void *data,
                            const struct host_coll_layer_t *layer,
                            struct host_comm_t *comm,
                            int collective,
                            const struct host_coll_args_t *args);

// A nonblocking entry: starts the collective and returns a request from host_coll_previous_start or
// host_coll_request_of_layer, or NULL if the collective is done already. The buffers are valid until
// the collective is done, `args` until the entry returns.
typedef int (*host_coll_start_fn)(void *data,
                                  const struct host_coll_layer_t *layer,
                                  struct host_comm_t *comm,
                                  int collective,
                                  const struct host_coll_args_t *args,
                                  struct host_coll_request_t **request);

// The functions of one collective. If all are NULL, the present functions stay.
typedef struct host_coll_entry_t {
    // NULL: the host's default is used, not the entry below.
    host_coll_fn blocking;
    // Not NULL if `blocking` is not NULL.
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
    // The first argument of the layer's entries.
    void *data;
    // The functions, at the places HOST_COLL_*.
    struct host_coll_entry_t entries[HOST_COLL_ROOM];
} host_coll_table_t;

// Makes progress with a collective that a layer runs: 1 when it is done, 0 when not, or a negative
// code. The host does not call the function again after the end or an error; then `state` belongs
// to the layer again. Two threads never call the function at once. Like the host's own requests,
// such a collective must end with an error once a rank is gone or the communicator has failed.
typedef int (*host_coll_pending_fn)(void *state);

// A hook, called with a communicator that was made or is freed, and `param`. Returns HOST_SUCCESS
// or a negative code.
typedef int (*host_comm_hook_fn)(struct host_comm_t *comm, void *param);

// A condition, on which a thread or task sleeps until a completion signals it. A new condition has
// all bytes zero (CRT_COND_INIT). Wait and signal alternate; one signal that comes before its wait
// is kept.
typedef struct crt_cond_t {
    // State, attachments and signals.
    uint32_t word;
    uint32_t reserved;
    // The task that waits.
    void *task;
} crt_cond_t;

// The functions that a tasking runtime lends to the host, so that a task waits without blocking its
// thread. The structure grows at its end only, and `size` tells its length: functions beyond it are
// NULL.
typedef struct crt_hooks_t {
    // CRT_HOOKS_MAGIC.
    uint64_t magic;
    // sizeof(crt_hooks_t).
    size_t size;
    // CRT_CAN_SUSPEND, CRT_CAN_YIELD, or both. Each claimed function must be set.
    uint32_t claims;
    // Zero.
    uint32_t reserved;
    // Returns the calling task; NULL outside of any task, where a wait blocks the thread.
    void *(*running)(void);
    // Takes the calling task `task` off its thread until the task is resumed. The hook may return
    // early.
    void (*suspend)(void *task);
    // Resumes a task. The host may call this function from any thread, also before `suspend`, which then
    // returns at once. The function must neither block nor run the task itself. Once the wait has
    // returned, no call comes or is under way.
    void (*resume)(void *task);
    // Runs another task on this thread, if there is one.
    void (*yield_now)(void);
} crt_hooks_t;

// Copies device memory to `size` contiguous bytes at `dest`. The source is the `count` runs of `iov`,
// from byte `offset` on; `iface` holds the kind (HOST_HMEM_*) of each run, and kinds may be mixed. The
// copy is synchronous. Returns the number of bytes copied or a negative libfabric errno: -FI_ENOSYS
// (-38) for an unknown kind. Several threads of the process may call it at the same time; it must not
// call the host.
typedef ptrdiff_t (*host_copy_from_hmem_fn)(void *dest,
                                            size_t size,
                                            const struct iovec *iov,
                                            const uint32_t *iface,
                                            size_t count,
                                            uint64_t offset);

// Copies `size` contiguous bytes at `src` to device memory; otherwise as host_copy_from_hmem_fn.
typedef ptrdiff_t (*host_copy_to_hmem_fn)(const struct iovec *iov,
                                          const uint32_t *iface,
                                          size_t count,
                                          uint64_t offset,
                                          const void *src,
                                          size_t size);

// Copies blocks of device memory of kind `iface` at regular distances to `size` contiguous bytes at
// `dest`, one after the other: count[1] rows of count[0] blocks of `block` bytes. Block i of row j begins
// i * stride[0] + j * stride[1] bytes after `base`. Otherwise as host_copy_from_hmem_fn.
typedef ptrdiff_t (*host_copy_from_strided_fn)(void *dest,
                                               size_t size,
                                               const void *base,
                                               uint32_t iface,
                                               size_t block,
                                               const size_t *stride,
                                               const size_t *count);

// Copies `size` contiguous bytes at `src` to blocks of device memory; otherwise as
// host_copy_from_strided_fn.
typedef ptrdiff_t (*host_copy_to_strided_fn)(void *base,
                                             uint32_t iface,
                                             size_t block,
                                             const size_t *stride,
                                             const size_t *count,
                                             const void *src,
                                             size_t size);

// Starts the copy of host_copy_from_hmem_fn on the program's `stream` and returns before it is complete.
// Writes an event for host_event_query_fn, or NULL if the copy is complete already. All memory stays until
// the event is over. Returns the number of bytes that are being copied, or a negative libfabric errno if no
// copy began. After -FI_EAGAIN (-11) the host calls the synchronous function instead.
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

// The state of an asynchronous copy, without waiting: 0 while it is under way, 1 if it is complete, a
// negative libfabric errno if it failed. With the last two answers the event is over, and the host does
// not ask again. Several threads of the process may call it at the same time; it must not call the host.
typedef int32_t (*host_event_query_fn)(void *event);

// A program's copy functions for device memory. The structure grows at its end only, and `size`
// tells its length: functions beyond it are NULL.
typedef struct host_overrides_t {
    // HOST_OVERRIDES_MAGIC.
    uint64_t magic;
    // sizeof(host_overrides_t).
    size_t size;
    // Device to host.
    host_copy_from_hmem_fn copy_from_hmem_iov;
    // Host to device.
    host_copy_to_hmem_fn copy_to_hmem_iov;
    // Blocks at regular distances, device to host: called once for a strided buffer, and for an indexed
    // buffer that consists of rows of equal blocks. If this function is NULL, the host calls the functions
    // above, with up to 256 runs at a time.
    host_copy_from_strided_fn copy_from_hmem_strided;
    // The same, host to device.
    host_copy_to_strided_fn copy_to_hmem_strided;
    // Asynchronous copies, device to host: called for large transfers of a buffer that the transport takes
    // unpacked, if query_event is set too. Copies then overlap each other and the network.
    host_copy_from_async_fn copy_from_hmem_async;
    // The same, host to device.
    host_copy_to_async_fn copy_to_hmem_async;
    // Returns the state of asynchronous copies.
    host_event_query_fn query_event;
    // Passed unchanged to the functions for asynchronous copies.
    void *stream;
} host_overrides_t;

// An endpoint through which kernels start operations, with the functions of host_xpu_device.h. The endpoint has
// the layout of libfabric's struct fid_xpu_ep. Passed to kernels by value.
typedef struct host_xpu_ep_t {
    // libfabric's FI_CLASS_EP.
    uint32_t fclass;
    // HOST_XPU_PROXY.
    uint32_t prov_id;
    // The device's address of the ring.
    uint64_t prov_ctx;
} host_xpu_ep_t;

// A window in calls of kernels. Passed by value.
typedef struct host_xpu_win_t {
    // The window's number in the ring.
    uint32_t number;
} host_xpu_win_t;

// A window that is being made, for a hook. The structure grows at its end only: `size` tells the length
// that this host fills in.
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
    // The table that the window got: shm, mixed or btl.
    const char *table_name;
    // This rank's memory.
    void *base;
    // Its bytes.
    size_t bytes;
} host_new_win_t;

// One call of an entry. The host has checked that the epoch allows the call and that the target's
// elements lie in the target's memory. Fields that the entry does not use are zero. The structure
// grows at its end only: `size` tells the length that this host fills in.
typedef struct host_rma_call_t {
    // sizeof(host_rma_call_t).
    size_t size;
    // HOST_RMA_*.
    size_t entry;
    // The target's rank. For shared_query, a negative rank means the first rank that has memory.
    int target;
    // HOST_LOCK_* for lock and unlock; negative if no lock was taken.
    int lock;
    // HOST_MODE_*.
    uint32_t assertion;
    // For test: the entry sets this flag if the exposure is over.
    int done;
    // The address of the target's first element: in this process if the window's table is shm, else
    // in the target's process.
    uint64_t address;
    // The origin's buffer; for get and rget, the buffer that is written.
    void *origin;
    // The buffer for the old values of fetching calls.
    void *result;
    // The value that compare_and_swap compares with.
    const void *compare;
    // Elements; contiguous at both ends unless the type has HOST_WITH_GAPS.
    size_t count;
    // The element type; with HOST_ON_DEVICE if `origin` is memory of a device, which only the transport may
    // access.
    int datatype;
    // The operation of accumulates.
    int op;
    // The ranks of start, complete and post.
    const size_t *group;
    // The number of groups.
    size_t group_count;
    // The memory of attach and detach; for shared_query, the entry sets it.
    void *base;
    // The bytes of this memory; for shared_query, the entry sets it.
    size_t bytes;
    // For shared_query: the target's displacement unit, which the entry sets.
    uint32_t unit;
    // Zero.
    int reserved;
    // The hints of set_info, which belong to the host. For get_info, the entry sets this field to new
    // hints, which then belong to the host.
    struct host_info_t *info;
} host_rma_call_t;

// An entry: HOST_SUCCESS, or a negative code. `data` is the data of the table.
typedef int (*host_rma_fn)(void *data,
                           const struct host_rma_layer_t *layer,
                           struct host_rma_call_t *call);

// The functions of one window. When a hook gets the table, each entry that the host knows is
// host_rma_previous, which stands for the present function. Calls skip an entry that a hook leaves unchanged;
// a hook that sets such an entry to NULL is refused. No entry ever moves: new functions are added at the end.
// Entries that a host does not know are NULL, and a hook that sets such an entry is refused. A hook must not
// write beyond `size`.
typedef struct host_rma_table_t {
    // HOST_RMA_TABLE_MAGIC.
    uint64_t magic;
    // sizeof(host_rma_table_t).
    size_t size;
    // The first argument of this window's entries.
    void *data;
    // The functions, at the places HOST_RMA_*.
    host_rma_fn entries[HOST_RMA_ROOM];
} host_rma_table_t;

// A hook, called with every new window before its creation returns. The hook may replace entries
// of `table` and set its data. Returns HOST_SUCCESS, or a negative code with which the creation
// fails at all ranks.
typedef int (*host_win_hook_fn)(const struct host_new_win_t *win,
                                struct host_rma_table_t *table,
                                void *param);

// Called when a window ends for which the hook succeeded, or when its creation fails. `data` is
// the value that the hook set in the table.
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

// A run of elements with its own address.
typedef struct host_run_t {
    // The run's first element, on the host or on a device, given like any buffer.
    void *address;
    // Elements in the run.
    size_t length;
} host_run_t;

// The layout of the elements of one side of a transfer, relative to the start of its buffer. Strided: `blocks` is
// NULL, and there are `count` runs of `length` elements whose starts are `stride` elements apart; runs must
// not overlap. Indexed: `blocks` points to `count` runs, and `length` and `stride` are zero. Absolute: `runs` points to
// `count` runs, each with its own address, and all other fields are zero; the buffer of the call is NULL. Only origins
// have absolute layouts. A call copies the layout before it returns. The structure grows at its end only.
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
    // The element type. With HOST_ON_DEVICE in an origin's layout, a buffer in host memory is refused;
    // the flag has no effect in a target's layout.
    int datatype;
    // Zero.
    int reserved;
    // The runs of an absolute layout; NULL for others.
    const struct host_run_t *runs;
} host_layout_t;

// The arguments of a transfer or an atomic update; arguments that the call does not use are zero. The structure grows at
// its end only, and `size` tells its length.
typedef struct host_rma_args_t {
    // HOST_RMA_ARGS_MAGIC.
    uint64_t magic;
    // sizeof(host_rma_args_t).
    size_t size;
    // The origin's buffer; for a get, the buffer that is written. The buffer may be NULL with
    // HOST_NO_OP.
    void *origin;
    // The buffer for the old values of fetching calls.
    void *result;
    // The value that compare_and_swap compares with.
    const void *compare;
    // The number of elements of a side without a layout; 1 for fetch_and_op and compare_and_swap.
    size_t count;
    // The displacement of the target's first element, in the target's units.
    uint64_t displacement;
    // The element type. With HOST_ON_DEVICE, host memory is refused.
    int datatype;
    // The operation of accumulates.
    int op;
    // The target's rank, or HOST_PROC_NULL.
    int target;
    // The counter of a HOST_RMA_PUT_NOTIFY, 0 to HOST_WIN_COUNTERS - 1.
    int counter;
    // The layout of the origin's elements; NULL: contiguous. Both layouts are for put, get and accumulate only. Both sides
    // have the same type and number of elements.
    const struct host_layout_t *origin_layout;
    // The layout of the target's elements from `displacement` on; NULL: contiguous.
    const struct host_layout_t *target_layout;
} host_rma_args_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The text of the last error of this thread, valid until its next one; empty if there was none.
const char *host_error_text(void);

// The version of the library that the program runs with, such as "0.2.0". A program can compare this
// version with HOST_VERSION, the version of the header that the program was compiled with. The text is
// static; any thread may call, at any time.
const char *host_library_version(void);

// Calls a collective of a communicator, HOST_COLL_*, and waits until it is done. host_calls.h has a documented function for
// each.
//
// # Safety
// The buffers are valid for the given elements, and do not overlap. Lists have a value for each
// rank.
int host_coll(struct host_comm_t *comm,
              int collective,
              const struct host_coll_args_t *args);

// As host_coll, nonblocking. The arguments and their lists are read before the call returns.
//
// # Safety
// `request` is writable; the buffers are valid for the given elements until the collective is
// done.
int host_coll_start(struct host_comm_t *comm,
                    int collective,
                    const struct host_coll_args_t *args,
                    struct host_coll_request_t **request);

// Calls the function that a blocking entry has overridden. Entries call this function with their
// own arguments or with others.
//
// # Safety
// The arguments are valid for the collective.
int host_coll_previous(void *_data,
                       const struct host_coll_layer_t *layer,
                       struct host_comm_t *comm,
                       int collective,
                       const struct host_coll_args_t *args);

// Calls the function that a nonblocking entry has overridden.
//
// # Safety
// The arguments are valid for the collective, and its buffers until it is done; `request` is
// writable.
int host_coll_previous_start(void *_data,
                             const struct host_coll_layer_t *layer,
                             struct host_comm_t *comm,
                             int collective,
                             const struct host_coll_args_t *args,
                             struct host_coll_request_t **request);

// Copies the collectives of a communicator into a table, so that a layer can replace some of them. The
// caller sets `magic` and `size` before the call. The host sets each entry to host_coll_previous or
// host_coll_previous_start, which call the present collective. The host sets an entry to NULL if the
// blocking form is absent or if this host does not know the collective, and `data` to NULL.
//
// # Safety
// `table` is NULL or a table.
int host_comm_get_table(struct host_comm_t *comm,
                        struct host_coll_table_t *table);

// Overrides the collectives of a communicator; in its create hooks only. Usually the table comes from
// host_comm_get_table, with some entries replaced. The host copies the table, and shares the copy
// between communicators whose overrides are equal. HOST_ERR_ARG, and nothing changes: a blocking entry
// is set and its nonblocking entry is NULL, or an entry is set that this host does not know.
//
// # Safety
// `table` is NULL or a table, whose functions any thread may call with its data as long as
// communicators have it.
int host_comm_override(struct host_comm_t *comm,
                       const struct host_coll_table_t *table);

// Undoes the last host_comm_override of a communicator; in its destroy hooks only, once for each
// override, so that the layer above finds its own.
int host_comm_restore(struct host_comm_t *comm);

// Makes the request of a collective that a layer runs itself. A nonblocking entry returns the
// request.
//
// # Safety
// Any thread may call `test` with `state` until `test` tells that the collective is done.
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

// Reads an attribute of a communicator. Sets `found` to whether the communicator has this attribute, and
// sets `value` only then. The world has the host's attributes. HOST_ERR_ARG: the host knows no such
// attribute.
//
// # Safety
// `value` and `found` are writable.
int host_comm_get_attr(struct host_comm_t *handle,
                       int attribute,
                       int *value,
                       int *found);

// Returns the communicator of all ranks of the job; the first call is collective. host_finalize
// ends it.
//
// # Safety
// `made` is writable.
int host_comm_world(struct host_comm_t **made);

// Makes a communicator of the same ranks with another context; collective.
//
// # Safety
// `made` is writable.
int host_comm_dup(struct host_comm_t *parent, struct host_comm_t **made);

// Makes a communicator for each color, with its ranks in the order of their keys; NULL for ranks
// whose color is negative (HOST_UNDEFINED). Collective.
//
// # Safety
// `made` is writable.
int host_comm_split(struct host_comm_t *parent, int color, int key, struct host_comm_t **made);

// Makes a communicator of some of the parent's ranks, in the given order; NULL at the other ranks.
// Collective over the parent.
//
// # Safety
// `members` are `count` ranks of the parent; `made` is writable.
int host_comm_create(struct host_comm_t *parent,
                     const int *members,
                     size_t count,
                     struct host_comm_t **made);

// Ends a communicator and sets the handle to NULL; collective. Waits for collectives under way. The
// world is refused: host_finalize ends it. If a destroy hook fails, the call reports this, and the
// communicator has still ended.
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

// Registers a create hook, a destroy hook or both for a layer. `create` is called with every
// communicator made from now on, from the highest layer to the lowest, and `destroy` when a
// communicator is freed, in the reverse order; each hook gets its own `param`. Every rank registers
// the same layers. If a create hook fails, the creation fails at all ranks. The host then calls the
// destroy hooks of the create hooks that succeeded, the last first. The failed hook cleans up for
// itself, and the communicator's table before this hook is restored. Hooks get the handle that the
// creation will return.
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

// Turns the condition off, and blocks the calling thread or task (see OMP_EXTERNAL) until
// crt_signal turns the condition on. Returns at once if the signal came before. HOST_ERR_MISUSE:
// another thread or task waits already.
//
// # Safety
// `condition` is a condition, and stays valid during the call.
int crt_wait(struct crt_cond_t *condition);

// Turns the condition on and wakes its waiter; any thread may call. HOST_ERR_MISUSE: the condition
// was signalled, and no wait came since.
//
// # Safety
// `condition` is a condition.
int crt_signal(struct crt_cond_t *condition);

// Sets the hooks of the tasking runtime; NULL removes the hooks. Call this function before
// host_init, which provides HOST_TASK_MULTIPLE only if hooks are set. Waits that begin afterwards
// use the hooks. HOST_ERR_HOOKS, and the earlier hooks stay: a claimed function is missing, a task
// waits by the present hooks, the hooks only suspend and the job has no progress thread, or
// host_init has refused the task level because hooks were missing.
//
// # Safety
// `hooks` is NULL or a table, whose functions stay callable as long as they are set.
int crt_set_hooks(const struct crt_hooks_t *hooks);

// Refuses hooks with a text for host_error_text, for headers that test a runtime before they set
// its hooks. Always returns HOST_ERR_HOOKS.
int crt_refuse_hooks(void);

// Selects whether a blocking call blocks the process, the thread or the task; overrides the
// environment's OMP_EXTERNAL. Call this function before host_init. A later call, or a value other
// than OMP_EXTERNAL_*, has no effect.
void omp_set_external(int mode);

// Returns whether a blocking call blocks the process, the thread or the task: OMP_EXTERNAL_*.
// After host_init, the value follows the provided level.
int omp_get_external(void);

// Returns the number of devices that the host knows, which are numbered from 0, or a negative
// HOST_ERR_* code.
int host_device_count(void);

// Returns the level of device support, or a negative HOST_ERR_* code. 1: the program starts operations on host
// memory; 2: also on device memory; 3: devices also start operations on device memory
// (host_device_ring_create); 4: devices also start operations on host memory.
int host_device_level(void);

// Allocates memory on a device. Buffers of calls may lie in this memory until host_device_free.
// The pointer is a device address: loads and stores of the program's host code must not use it.
//
// # Safety
// `memory` is writable.
int host_device_alloc(int device, size_t size, void **memory);

// Frees memory of host_device_alloc, and sets the pointer to NULL. No call may use the memory any
// longer.
//
// # Safety
// `memory` is writable.
int host_device_free(void **memory);

// Copies `size` bytes of device memory to host memory, and returns when the copy is complete.
//
// # Safety
// `into` is writable for `size` bytes.
int host_device_read(void *into, void *from, size_t size);

// Copies `size` bytes of host memory to device memory, and returns when the copy is complete.
//
// # Safety
// `from` is readable for `size` bytes.
int host_device_write(void *to, const void *from, size_t size);

// Tells the host that `size` bytes at `host` are mapped at `memory` on a device, until
// host_device_disassociate. omp_target_associate_ptr is the equivalent for OpenMP. A variable may be
// mapped on several devices; its pointer alone then means the device with the lowest number.
//
// # Safety
// The range at `memory` is memory of this device until host_device_disassociate.
int host_device_associate(const void *host,
                          size_t size,
                          int device,
                          const void *memory);

// Removes the association of `host` with memory of a device (see host_device_associate).
int host_device_disassociate(const void *host, int device);

// Finds a pointer's device and the pointer's address on the device. Host memory has the device -1
// and its own address.
//
// # Safety
// `device` and `memory` are writable.
int host_target_location(const void *pointer_, int *device, void **memory);

// Finds the device address for a pointer: a host pointer that is mapped there, or memory of the
// device itself. An error if there is no such address.
//
// # Safety
// `memory` is writable.
int host_target_pointer(const void *pointer_, int device, void **memory);

// Packs a device and a pointer's address there into one pointer. Every call that takes a buffer or a
// window's memory accepts the packed pointer, collectives too. Device -1 means the host memory of a
// pointer that is also mapped on a device. (The alternatives: the pointer itself, and HOST_ON_DEVICE
// added to the type if a call takes a type.)
//
// # Safety
// `encoded` is writable.
int host_encode_location(const void *pointer_,
                         int device,
                         void **encoded);

// Sets the copy functions for device memory of all kinds. The functions apply at once, also to existing
// windows and buffers. Operations under way keep the earlier functions for their local buffers. If a function
// is NULL, the transport uses its own, which knows CUDA only; NULL instead of a table removes all functions.
// The provider is offered the functions too: host_query_overrides has its answer. A single function is offered
// only if CUDA is the only kind of memory that the provider reaches.
//
// # Safety
// `overrides` is NULL or a table. All functions that were ever set follow the rules of their types until host_finalize has
// returned.
int host_set_overrides(const struct host_overrides_t *overrides);

// Asks whether the provider uses the functions of host_set_overrides. `answer` becomes a libfabric errno: 0 if
// the provider uses them; -FI_ENOSYS (-38) if it does not support overrides, or was offered none; another
// negative errno if it refused them with that errno; -FI_ENODATA (-61) if none are set. If the answer is not 0,
// only the transport's own copies use the functions; memory that the provider accesses itself does not.
//
// # Safety
// `answer` is writable.
int host_query_overrides(int *answer);

// Adds a device of a kind, with its number among the devices of this kind. `device` becomes its number
// in calls and in "device_num". The host does not allocate its memory: see host_device_add_memory.
// The device starts no operations unless the program calls host_device_starts.
// Devices stay until host_finalize.
//
// # Safety
// `name` is a string, `device` is writable.
int host_device_add(const char *name,
                    uint32_t iface,
                    uint64_t number,
                    int *device);

// Declares that kernels of a device that the program added can read and write host memory, also by atomics,
// so that they can start operations through rings (host_device_ring_create).
int host_device_starts(int device);

// Tells the host of `size` bytes of memory on a device. Buffers and windows may lie in this memory
// until host_device_forget_memory. The host accesses this memory by the copy functions only.
//
// # Safety
// The range is memory of this device until host_device_forget_memory.
int host_device_add_memory(int device, const void *memory, size_t size);

// Undoes host_device_add_memory for the memory that begins at `memory`. No operation and no window
// may use the memory any longer.
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

// Returns the host memory of a ring, for a program that maps the memory for a device of its own: the
// device's address then replaces `prov_ctx`. The memory stays until host_device_ring_free.
//
// # Safety
// `base` and `size` are writable.
int host_device_ring_memory(struct host_device_ring_t *handle,
                            void **base,
                            size_t *size);

// Returns the endpoint through which kernels of the ring's device start operations.
//
// # Safety
// `ep` is writable.
int host_device_ring_export(struct host_device_ring_t *handle, struct host_xpu_ep_t *ep);

// Lets commands of a ring use a window. A lock or lock_all epoch of the window must be open when commands come;
// `known` is the window's name for kernels. The window must be freed after the ring.
//
// # Safety
// `win` is a window that no other thread frees; `known` is writable.
int host_device_ring_add_window(struct host_device_ring_t *handle,
                                struct host_win_t *win,
                                struct host_xpu_win_t *known);

// Returns the numbers of a ring's operations that succeeded and failed. HOST_ERR_STATE: the program closed the
// ring, or the device wrote a command that no kernel of host_xpu_device.h writes; the numbers are valid
// nevertheless.
//
// # Safety
// `succeeded` and `failed` are writable.
int host_device_ring_status(struct host_device_ring_t *handle,
                            uint64_t *succeeded,
                            uint64_t *failed);

// Ends the service of a ring, after its operations under way. Kernels that still wait or post get -ECANCELED. A
// function that progress calls must not call this function.
int host_device_ring_close(struct host_device_ring_t *handle);

// Closes a ring, frees its memory, and sets the handle to NULL.
//
// # Safety
// `handle` points to NULL or a ring. The kernels that use the ring have ended, and no other thread
// uses it.
int host_device_ring_free(struct host_device_ring_t **handle);

// Leaves the job in good order; collective. The program must free its windows and all
// communicators except the world before.
int host_finalize(void);

// Joins the job in which `host-stub launch`, mpirun or srun started this process, or makes a job of
// one process, for a thread level HOST_THREAD_*. `provided`, unless NULL, gets the level that the
// program must keep to; OMP_EXTERNAL or omp_set_external can make this level differ from the
// requested level. HOST_TASK_MULTIPLE is provided only if a tasking runtime's hooks are set
// (crt_set_hooks, crt_omp_yield_in_waits), else HOST_THREAD_MULTIPLE with a warning.
//
// # Safety
// The program keeps to the level provided. `provided` is writable or NULL.
int host_init_thread(int required, int *provided);

// This process's rank, or a negative code.
int host_rank(void);

// Ranks of the job, or a negative code.
int host_size(void);

// Waits until every rank is here; collective.
int host_barrier(void);

// Makes progress once: completes operations that can be completed, and calls their callbacks.
int host_progress(void);

// Registers a hook for the windows made from now on, after the hooks already registered. Returns an
// id or a negative code. `ended` may be NULL. Every rank registers the same hooks in the same order,
// while no window is being made.
//
// # Safety
// Any thread may call the functions with `param`, and the entries that they set, as long as there are
// windows that the hook saw.
int host_win_hook_register(host_win_hook_fn created,
                           host_win_ended_fn ended,
                           void *param);

// Ends a registration. Windows that were made under the registration keep the hook's entries.
int host_win_hook_remove(int id);

// Makes an empty set of hints.
//
// # Safety
// `info` is NULL or writable.
int host_info_create(struct host_info_t **info);

// Adds a hint: alloc_shared_noncontig and host_win_huge_pages are true or false, host_win_table is
// auto, shm, mixed or btl, host_ranks_per_node is a number, and device_num is the number of the device of
// this rank's memory, -1 for the host. MPI's no_locks, same_size and same_disp_unit are true or false,
// accumulate_ordering is none or some of rar,raw,war,waw, accumulate_ops is same_op or same_op_no_op, and
// mpi_accumulate_granularity is a number of bytes. Other keys are ignored.
//
// # Safety
// `key` and `value` are NULL or texts.
int host_info_set(struct host_info_t *info,
                  const char *key,
                  const char *value);

// Ends hints, and sets the handle to NULL. Windows made with the hints stay unchanged.
//
// # Safety
// `info` is NULL or writable.
int host_info_free(struct host_info_t **info);

// Copies the value of a key to `value`, cut to `room` bytes with its zero byte. `length` gets the whole
// length without the zero byte, or -1 if the hints do not have the key. `value` and `length` may be NULL.
//
// # Safety
// `key` is NULL or a text; `value` is NULL or has room for `room` bytes; `length` is NULL or writable.
int host_info_get(struct host_info_t *info,
                  const char *key,
                  size_t room,
                  char *value,
                  ptrdiff_t *length);

// Changes hints of a window; collective, with the same hints on every process. Completes this process's
// operations first. MPI's keys of host_info_set can change. HOST_ERR_WIN on every process, and nothing
// changes: another key with a new value, hints that differ between processes, or no_locks while a lock is
// held.
//
// # Safety
// As for every call on a window: no other thread frees it meanwhile.
int host_win_set_info(struct host_win_t *win,
                      struct host_info_t *info);

// Makes a set of the hints in force for a window. The caller ends the set by host_info_free.
//
// # Safety
// `info` is NULL or writable.
int host_win_get_info(struct host_win_t *win, struct host_info_t **info);

// Calls the function that an entry has replaced, with the arguments of the call. Only the fields of
// the call that the entry must set are written.
//
// # Safety
// `layer` and `call` are NULL, or the arguments of an entry that has not returned. One thread at a
// time calls with these arguments.
int host_rma_previous(void *_data,
                      const struct host_rma_layer_t *layer,
                      struct host_rma_call_t *call);

// Returns the number of puts with notification that have arrived at a counter of this process. The
// program may read the bytes of these puts.
//
// # Safety
// `win` is live. `arrived` is NULL or writable.
int host_win_notifications(int counter, uint64_t *arrived, struct host_win_t *win);

// Waits until at least `at_least` puts with notification in total have arrived at a counter of this process. An error if a
// process of the window is lost during the wait.
//
// # Safety
// `win` is live.
int host_win_wait_notified(int counter,
                           uint64_t at_least,
                           struct host_win_t *win);

// Makes a window of a kind, HOST_WIN_CREATE and so on, over a communicator or, if that is NULL, over all ranks of the job;
// with hints or NULL. Collective. host_calls.h has a function for each kind. Only HOST_WIN_CREATE uses `base`, and all
// kinds except HOST_WIN_DYNAMIC use `size` and `unit`.
//
// # Safety
// `win` is NULL or writable. Memory at `base` stays valid until the window is freed.
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

// Returns the address of a rank's memory in this process, its size in bytes, and its displacement
// unit; a negative rank means the first rank that has memory. Each result may be NULL.
// HOST_ERR_WIN: the memory is not mapped in this process.
//
// # Safety
// Answers that are not NULL are writable.
int host_win_shared_query(struct host_win_t *win,
                          int target,
                          void **base,
                          size_t *size,
                          uint32_t *unit);

// Waits until each of `count` operations is complete, and sets the handles to NULL; the first error is returned after all
// have ended. HOST_ERR_LEVEL: the handles are unchanged.
//
// # Safety
// `requests` is NULL or `count` places, each with NULL or a request that no other thread uses.
int host_waitall(size_t count,
                 struct host_request_t **requests);

// Waits for one of `count` requests, sets its handle to NULL and `index` to its place. If all have
// ended, sets `index` to `count`.
//
// # Safety
// As for host_waitall; `index` is writable.
int host_waitany(size_t count, struct host_request_t **requests, size_t *index);

// Makes progress; sets `done` to whether the operation is complete, and if so, the handle to NULL. If
// the operation failed, sets both too and returns its error.
//
// # Safety
// `request` points to NULL or to a request that no other thread uses; `done` is writable.
int host_test(struct host_request_t **request,
              int *done);

// Signals a condition when the operation is complete, or at once if it is complete already. The
// program must still end the request, for example by host_wait, which then does not block. A request
// signals one condition.
//
// # Safety
// `condition` stays until it was signalled.
int host_request_attach(struct host_request_t *request,
                        struct crt_cond_t *condition);

// Lets an operation end without a handle, and sets the handle to NULL. `call` is called once with
// `data` when the operation is complete, on the thread that makes progress, or on this thread if it
// is complete already. `call` must not wait. The call needs a progress thread, or a thread that
// waits, tests or calls host_progress.
//
// # Safety
// `request` points to a request that no other thread uses; buffers and window stay until `call` was
// called.
int host_request_detach(struct host_request_t **request, host_completed_fn call, void *data);

// Begins a transfer or an atomic update: HOST_RMA_PUT to HOST_RMA_COMPARE_AND_SWAP, or HOST_RMA_PUT_NOTIFY. host_calls.h has a
// documented function for each.
//
// # Safety
// `win` is live, and layouts are tables. Until the operation is complete, its buffers follow the rules of its function in
// host_calls.h.
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
// host_calls.h has a documented function for each. A lock uses `lock` (HOST_LOCK_*); lock, unlock and flush of one rank use
// `target`; fence, lock and lock_all use `assertion`. Other arguments are ignored.
//
// # Safety
// No other thread frees the window meanwhile.
int host_win_synchronize(size_t entry,
                         int lock,
                         int target,
                         uint32_t assertion,
                         struct host_win_t *win);

// Opens an access epoch to a group of ranks of the window. The assertion is 0 or
// HOST_MODE_NOCHECK.
//
// # Safety
// No other thread frees the window meanwhile.
// `group` is NULL or `count` ranks.
int host_win_start(const int *group, size_t count, uint32_t assertion, struct host_win_t *win);

// Opens this rank's memory to a group of ranks. The assertion is 0, HOST_MODE_NOCHECK, NOSTORE or NOPUT. If the call
// fails, nothing is opened.
//
// # Safety
// No other thread frees the window meanwhile.
// `group` is NULL or `count` ranks.
int host_win_post(const int *group,
                  size_t count,
                  uint32_t assertion,
                  struct host_win_t *win);

// Sets `done` to whether the group of host_win_post has completed. If the group has completed, or if the call
// fails, closes the exposure.
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

// Frees a window and sets the handle to NULL; collective. HOST_ERR_STATE: a request of the window is open, or a ring
// uses the window. HOST_ERR_WIN: an epoch is open. After these, and after HOST_ERR_LEVEL, the window and its handle
// are unchanged; after any other error the window is gone.
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
