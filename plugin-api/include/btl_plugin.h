/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C ABI between a one-sided transport plugin and the host that loads it.
 *
 * A plugin is a shared object that exports one function, btl_plugin_entry_v1. The function returns
 * a btl_component_vtable. The component makes modules; each btl_module has a btl_module_vtable and
 * btl_attributes. The host passes a btl_host_vtable to the plugin. Names, semantics and status
 * codes follow Open MPI's BTL 3.x interface (opal/mca/btl/btl.h).
 *
 * Growth
 *   Every table starts with a btl_table_header. Two sides are compatible when magic and abi_major
 *   are equal. Within a major, tables only grow at their end, so each side uses a table up to the
 *   smaller of its own and the other's size. An entry beyond the other side's size does not exist
 *   (BTL_TABLE_HOLDS); an entry inside the size of the first release (BTL_*_MIN_SIZE) is never
 *   NULL. Each side checks the other's tables before it uses them: magic, major, size at least
 *   the first release's, no NULL entry within that size.
 *
 * Threads
 *   If the host asked for BTL_THREAD_MULTIPLE, several threads may call module functions and
 *   progress at the same time. At lower levels, calls never overlap. The host never calls open,
 *   init, finalize or close concurrently with any function of the same component.
 *
 * Callbacks
 *   Completion and error callbacks run on the thread that called progress, flush or an operation.
 *   (A plugin may complete earlier operations while it starts another, to make room.) The plugin
 *   holds no lock while a callback runs. A callback may call progress, put, get and every atomic;
 *   it must not call flush, del_procs, finalize or close.
 *
 * Ownership
 *   The side that provides a table keeps it valid until close returns. Pointers passed to a call
 *   are borrowed for that call unless the function's comment states otherwise. Neither side frees
 *   an allocation of the other, and no C++ exception or longjmp crosses the boundary.
 *
 * The header works with C11 and C++11. Enumerations are passed as fixed-width integers, so that an
 * unknown code is a value to refuse and not undefined behaviour; the values are macros here.
 */
#ifndef BTL_PLUGIN_H
#define BTL_PLUGIN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Version and table header --------------------------------------------------------------- */

/* Tables of another major are refused. */
#define BTL_ABI_MAJOR 1
/* Raised when a table grows at its end. */
#define BTL_ABI_MINOR 5

/* The one symbol that a plugin exports, for dlsym. */
#define BTL_ENTRY_SYMBOL "btl_plugin_entry_v1"

/* Magic words, one per kind of table: eight ASCII characters, first one in the lowest byte. */
#define BTL_MAGIC_HOST UINT64_C(0x3154534f484c5442)       /* "BTLHOST1", btl_host_vtable */
#define BTL_MAGIC_COMPONENT UINT64_C(0x31504d4f434c5442)  /* "BTLCOMP1", btl_component_vtable */
#define BTL_MAGIC_MODULE UINT64_C(0x314c444f4d4c5442)     /* "BTLMODL1", btl_module_vtable */
#define BTL_MAGIC_ATTRIBUTES UINT64_C(0x31525454414c5442) /* "BTLATTR1", btl_attributes */
#define BTL_MAGIC_STATS UINT64_C(0x31544154534c5442)      /* "BTLSTAT1", btl_stats */
#define BTL_MAGIC_OVERRIDES UINT64_C(0x314452564f4c5442)  /* "BTLOVRD1", btl_override_ops */
#define BTL_MAGIC_HMEM_INFO UINT64_C(0x314d454d484c5442)  /* "BTLHMEM1", btl_hmem_info */

/* The first field of every table. */
typedef struct btl_table_header {
    uint64_t magic;     /* one of BTL_MAGIC_* */
    uint16_t abi_major; /* BTL_ABI_MAJOR of the side that made the table */
    uint16_t abi_minor; /* BTL_ABI_MINOR of the side that made the table */
    uint32_t size;      /* bytes of the whole table, header included */
} btl_table_header;

/* Initialiser for the header of a table of `type` made by this build. */
#define BTL_TABLE_HEADER(type, magic_word) \
    { (magic_word), BTL_ABI_MAJOR, BTL_ABI_MINOR, (uint32_t)sizeof(type) }

/* Whether the table at `table` is long enough to hold `field` of `type`. */
#define BTL_TABLE_HOLDS(table, type, field) \
    ((size_t)(table)->header.size >= offsetof(type, field) + sizeof(((type *)0)->field))

/* ---- Status --------------------------------------------------------------------------------- */

/* The result of a call: 0 success, 1 completed inline, negative an error. The values are those of
 * Open MPI's OPAL_* (opal/include/opal/constants.h). */
typedef int32_t btl_status;

#define BTL_SUCCESS 0                /* done; an operation is in flight and its callback will run */
#define BTL_COMPLETED 1              /* the operation is complete; no callback runs */
#define BTL_ERROR (-1)               /* an error without a better code */
#define BTL_OUT_OF_RESOURCE (-2)     /* memory, descriptors or registrations are exhausted */
#define BTL_TEMP_OUT_OF_RESOURCE (-3) /* back-pressure: call progress and try again */
#define BTL_RESOURCE_BUSY (-4)       /* the object is in use */
#define BTL_BAD_PARAM (-5)           /* an argument is wrong; the call had no effect */
#define BTL_FATAL (-6)               /* the module can no longer be used */
#define BTL_NOT_IMPLEMENTED (-7)     /* the function is known but not implemented */
#define BTL_NOT_SUPPORTED (-8)       /* this module or provider cannot serve the operation */
#define BTL_INTERRUPTED (-9)         /* the call was interrupted */
#define BTL_UNREACH (-12)            /* the peer cannot be reached, or is gone */
#define BTL_NOT_FOUND (-13)          /* no object has that name */
#define BTL_EXISTS (-14)             /* an object has that name already */
#define BTL_TIMEOUT (-15)            /* the time limit expired */
#define BTL_NOT_AVAILABLE (-16)      /* no usable object is available now */
#define BTL_PERM (-17)               /* not permitted */
#define BTL_VALUE_OUT_OF_BOUNDS (-18) /* an address or length lies outside its object */
#define BTL_TYPE_MISMATCH (-27)      /* the other side's ABI cannot be used */
#define BTL_NOT_INITIALIZED (-44)    /* before initialisation, or after finalisation */

/* ---- Parameters ----------------------------------------------------------------------------- */

/* The type of a parameter; it selects the valid field of btl_param_bits. */
#define BTL_PARAM_INT 0           /* 32-bit signed; i */
#define BTL_PARAM_UNSIGNED_INT 1  /* 32-bit unsigned; u */
#define BTL_PARAM_SIZE_T 3        /* a size in bytes; u */
#define BTL_PARAM_BOOL 4          /* 0 or 1; u */
#define BTL_PARAM_STRING 5        /* NUL-terminated UTF-8, or NULL for unset; s */

typedef union btl_param_bits {
    int64_t i;     /* signed integers */
    uint64_t u;    /* unsigned integers, sizes and booleans */
    const char *s; /* strings; NULL means unset */
} btl_param_bits;

/* A value with its kind. */
typedef struct btl_param_value {
    uint32_t kind;     /* one of BTL_PARAM_* */
    uint32_t reserved; /* written as zero */
    btl_param_bits bits;
} btl_param_value;

/* A parameter as a plugin declares it. All pointers are borrowed for the call. */
typedef struct btl_param_decl {
    const char *name;              /* full name, e.g. btl_ofi_num_cq_read */
    const char *help;              /* description, one line */
    const char *const *synonyms;   /* NULL-terminated array of further names, or NULL */
    const char *const *allowed;    /* NULL-terminated array of the allowed strings, or NULL for any */
    btl_param_value default_value; /* type and default */
    int64_t min;                   /* smallest allowed integer; meaningful when min <= max */
    int64_t max;                   /* largest allowed integer; meaningful when min <= max */
    uint32_t level;                /* detail level, 1 (everyone) to 9 (developers) */
    uint32_t reserved;             /* written as zero */
} btl_param_decl;

/* ---- Services of the host ------------------------------------------------------------------- */

/* The level of a log line. */
#define BTL_LOG_ERROR 0 /* an operation or object failed */
#define BTL_LOG_WARN 1  /* the state may differ from the user's expectation */
#define BTL_LOG_INFO 2  /* choices and their reasons */
#define BTL_LOG_DEBUG 3 /* for developers */

/* Services of the host. Any thread may call a function, unless its comment states otherwise; a
 * signal handler must not. */
typedef struct btl_host_vtable {
    btl_table_header header; /* BTL_MAGIC_HOST */
    void *context;           /* passed back as the first argument of each function */

    /* Declares a parameter and writes its resolved value. A second declaration of the same parameter
     * is allowed and gives the same value. Strings stay valid until the component is closed.
     * BTL_BAD_PARAM: the user's value does not parse; the host has logged this. */
    btl_status (*param_register)(void *context, const btl_param_decl *decl, btl_param_value *value);

    /* Publishes `size` bytes under `key` for the other processes of the job. The host copies the
     * bytes. The plugin calls this only from init. Peers see the bytes after the host's next
     * exchange. */
    btl_status (*modex_put)(void *context, const char *key, const void *data, size_t size);

    /* Reads the bytes that process `proc` published under `key`: copies at most `capacity` bytes and
     * writes the full size to `size`. BTL_NOT_FOUND: the process published nothing under `key`. */
    btl_status (*modex_get)(void *context, uint64_t proc, const char *key, void *data,
                            size_t capacity, size_t *size);

    /* Prints a line (UTF-8, `size` bytes, no newline) at one of BTL_LOG_*. Each host that has a component
     * of the plugin open may get the lines of all components. */
    void (*log)(void *context, uint32_t level, const char *line, size_t size);
} btl_host_vtable;

/* The table's size in ABI 1.0, on platforms with 64-bit pointers. */
#define BTL_HOST_VTABLE_MIN_SIZE 56

/* ---- Capabilities of a module --------------------------------------------------------------- */

/* Capabilities of a module, with the bits of MCA_BTL_FLAGS_*. */
#define BTL_FLAG_SEND UINT32_C(0x1) /* send works */
#define BTL_FLAG_PUT UINT32_C(0x2) /* put works */
#define BTL_FLAG_GET UINT32_C(0x4) /* get works */
/* A completion means that the data is visible at the target. */
#define BTL_FLAG_RDMA_REMOTE_COMPLETION UINT32_C(0x800000)
#define BTL_FLAG_ATOMIC_OPS UINT32_C(0x8000)   /* atomic_op works for at least one operation */
#define BTL_FLAG_ATOMIC_FOPS UINT32_C(0x10000) /* atomic_fop works for at least one operation */
#define BTL_FLAG_RDMA_FLUSH UINT32_C(0x80000)  /* flush works */
/* This process's calls execute the atomics of all peers, so that register_mem takes
 * BTL_ACCESS_SOLE_ATOMICS. Not a BTL flag. */
#define BTL_FLAG_SOLE_ATOMICS UINT32_C(0x8000000)
/* apply takes puts and gets of several runs (BTL_APPLY_BYTES) to peers whose small puts the target's
 * processor makes; for other peers it returns BTL_NOT_SUPPORTED. Not a BTL flag. */
#define BTL_FLAG_SCATTERS UINT32_C(0x10000000)
/* apply reaches every peer. Without this flag, it may reach some peers. Not a BTL flag. */
#define BTL_FLAG_APPLIES UINT32_C(0x20000000)
/* Typed AMOs from one origin to one target address take effect in the order of issue, so the host
 * need not wait between them. Exception: if the target's memory is on the host and the operands are on
 * a device, the plugin may copy the operands after the call, and later AMOs may take effect before
 * such an AMO. Not a BTL flag. */
#define BTL_FLAG_ATOMICS_ORDERED UINT32_C(0x40000000)
/* put and get know BTL_TRANSFER_FLAG_CHECKED. Not a BTL flag. */
#define BTL_FLAG_CHECKS_KEYS UINT32_C(0x4000000)
/* Puts and gets complete without any call by the target. Not a BTL flag. */
#define BTL_FLAG_RDMA_PASSIVE_TARGET UINT32_C(0x80000000)

/* Supported operations of atomic_op, atomic_fop and atomic_cswap, with the bits of
 * MCA_BTL_ATOMIC_SUPPORTS_*. Each bit holds for 64-bit operands, and also for 32-bit operands if
 * BTL_ATOMIC_WORD_32 is set. */
#define BTL_ATOMIC_ADD UINT32_C(0x1)
#define BTL_ATOMIC_AND UINT32_C(0x200)
#define BTL_ATOMIC_OR UINT32_C(0x400)
#define BTL_ATOMIC_XOR UINT32_C(0x800)
#define BTL_ATOMIC_LAND UINT32_C(0x1000)
#define BTL_ATOMIC_LOR UINT32_C(0x2000)
#define BTL_ATOMIC_LXOR UINT32_C(0x4000)
#define BTL_ATOMIC_SWAP UINT32_C(0x10000)
#define BTL_ATOMIC_MIN UINT32_C(0x100000)
#define BTL_ATOMIC_MAX UINT32_C(0x200000)
#define BTL_ATOMIC_WORD_32 UINT32_C(0x1000000) /* 32-bit operands */
#define BTL_ATOMIC_FLOAT UINT32_C(0x2000000)   /* floating-point operands */
#define BTL_ATOMIC_CSWAP UINT32_C(0x10000000)  /* compare and swap */
#define BTL_ATOMIC_GLOB UINT32_C(0x20000000)   /* atomic also with respect to the target's processor */

/* Capabilities and limits of a module. The fields and the strings are constant for the module's
 * life. */
typedef struct btl_attributes {
    btl_table_header header;                   /* BTL_MAGIC_ATTRIBUTES */
    uint32_t flags;                            /* BTL_FLAG_* */
    uint32_t atomic_flags;                     /* BTL_ATOMIC_* */
    uint64_t put_limit;                        /* largest put, bytes */
    uint64_t get_limit;                        /* largest get, bytes */
    uint64_t put_alignment;                    /* of addresses and sizes; 0 and 1 mean none */
    uint64_t get_alignment;                    /* of addresses and sizes; 0 and 1 mean none */
    uint64_t put_local_registration_threshold; /* puts up to this size need no local handle */
    uint64_t get_local_registration_threshold; /* gets up to this size need no local handle */
    uint64_t handle_size;   /* bytes of a handle: a multiple of 8, position-independent */
    uint32_t latency;       /* approximate latency of a small put, microseconds */
    uint32_t bandwidth;     /* approximate bandwidth, Mbit/s */
    uint32_t exclusivity;   /* preference among transports; higher wins */
    uint32_t contexts;      /* transmit contexts in use */
    const char *provider;   /* provider, as fi_info prints it */
    const char *domain;     /* domain (device), as fi_info prints it */
    const char *completion; /* how the module ensures remote visibility, one line of text */
} btl_attributes;

/* The table's size in ABI 1.0, on platforms with 64-bit pointers. */
#define BTL_ATTRIBUTES_MIN_SIZE 120

/* ---- Objects -------------------------------------------------------------------------------- */

/* A component; opaque to the host. */
typedef struct btl_component btl_component;
/* A peer as one module sees it; opaque to the host. */
typedef struct btl_endpoint btl_endpoint;
/* A registration handle: btl_attributes.handle_size plain bytes at an 8-byte aligned address. The
 * host copies these bytes to peers, and a peer passes its copy as remote_handle. */
typedef struct btl_handle btl_handle;

typedef struct btl_module_vtable btl_module_vtable;

/* A module. The memory after these two pointers belongs to the plugin. */
typedef struct btl_module {
    const btl_module_vtable *vtable;  /* never NULL, valid until the module is finalised */
    const btl_attributes *attributes; /* never NULL, valid until the module is finalised */
} btl_module;

/* Runs once, when an operation completed or failed. `status` 0 means that the data is visible at the
 * target (put, update) or at `local_address` (get, fetch), and that the caller may reuse the local
 * buffer. The other arguments are those of the call. */
typedef void (*btl_completion_fn)(btl_module *module, btl_endpoint *endpoint, void *local_address,
                                  btl_handle *local_handle, void *context, void *data,
                                  int32_t status);

/* The severity of an error, with the bits of MCA_BTL_ERROR_FLAGS_*. */
#define BTL_ERROR_FLAG_FATAL UINT32_C(1)    /* the module can no longer be used */
#define BTL_ERROR_FLAG_NONFATAL UINT32_C(2) /* one operation or one peer failed */

/* Runs when an operation without callback, a peer or the whole module failed. `endpoint` is NULL for
 * the whole module; `info` is one line of text, borrowed for the call. */
typedef void (*btl_error_fn)(btl_module *module, uint32_t flags, btl_endpoint *endpoint,
                             uint64_t proc, int32_t status, const char *info, void *context);

/* Receives a message that a peer sent. `endpoint` is the sender, or NULL if this process has not added
 * it. The `size` bytes at `data`, which is aligned to 8, are valid during the call. The function may
 * send and post operations, but must not wait, because no further message arrives until it returns.
 * */
typedef void (*btl_receive_fn)(btl_module *module, btl_endpoint *endpoint, uint8_t tag,
                               const void *data, size_t size, void *context);

/* Most bytes of one apply: BTL_APPLY_HEAD, BTL_APPLY_RUN for each run, and the operands. The results have
 * at most this many bytes, too. */
#define BTL_MOST_APPLIED 12288
#define BTL_APPLY_HEAD 16
#define BTL_APPLY_RUN 24
#define BTL_MOST_ELEMENT 64 /* most bytes of an element */
/* Replaces the code of a datatype or operation that the typed AMOs do not have. */
#define BTL_APPLY_OTHER UINT32_MAX
/* Replaces the code of a datatype: the runs are the bytes of a put (BTL_ATOMIC_OP_WRITE without results) or
 * of a get (BTL_ATOMIC_OP_READ), with a size of 1 and a code of 0. Such an apply needs the rights of a
 * put or get, and is as little atomic as a put or get. For modules with BTL_FLAG_SCATTERS. */
#define BTL_APPLY_BYTES (UINT32_MAX - 1)

/* Blocks of elements at equal distances. Elements are changed in the order of runs and blocks: an element
 * that is named twice is changed twice. If no datatype is given, an element may lie in several blocks:
 * the bytes between these stay as they are, and only the target's processor changes the element, which
 * may be named once only. */
typedef struct btl_apply_run {
    uint64_t offset; /* bytes from the address of the operation to the first block */
    uint64_t length; /* bytes of a block; all blocks together are whole elements */
    uint64_t stride; /* bytes from the beginning of a block to the beginning of the next */
    uint64_t count;  /* number of blocks, at least one */
} btl_apply_run;

/* An update and the elements that it changes. */
typedef struct btl_apply_request {
    const btl_apply_run *runs;
    size_t run_count;
    const void *operands; /* packed in the order of the runs, copied; NULL for BTL_ATOMIC_OP_READ. For
                           * BTL_ATOMIC_OP_CSWAP the values to compare with, then the new ones */
    void *results; /* receives the old values, packed; NULL if the caller does not want the values
    */
    uint32_t size;        /* bytes of an element */
    uint32_t datatype;    /* a BTL_DATATYPE_* of this size, BTL_APPLY_OTHER or BTL_APPLY_BYTES */
    uint32_t op;          /* a BTL_ATOMIC_OP_*, or BTL_APPLY_OTHER */
    uint32_t code;        /* names operation and type for the function of the target's host */
} btl_apply_request;

/* Combines `count` elements of `size` bytes with their operands: each element becomes the result of the
 * operation that `code` names. A peer chose code and size: the function refuses a code of elements of
 * another size. Both arrays are aligned for every type of the element's size. The function runs under
 * locks of the module, on any thread that makes progress; it must not call the module, nor wait.
 * A status other than BTL_SUCCESS refuses the operation with that status; the contents of `elements`
 * are then ignored. */
typedef btl_status (*btl_apply_fn)(void *context, uint32_t code, size_t size, void *elements,
                                   const void *operands, size_t count);

/* A message that is to be sent: first the bytes at `data`, which the caller writes, then the bytes
 * at `source`, which are sent from their place. The module owns the memory. */
typedef struct btl_descriptor {
    void *data;         /* aligned to 8 */
    size_t size;        /* the caller may make it smaller */
    const void *source; /* NULL: none */
    size_t source_size;
} btl_descriptor;

/* Rights on registered memory, with the bits of MCA_BTL_REG_FLAG_*. */
#define BTL_ACCESS_LOCAL_WRITE UINT32_C(0x1)   /* gets and fetches of this process write it */
#define BTL_ACCESS_REMOTE_READ UINT32_C(0x2)   /* peers read it */
#define BTL_ACCESS_REMOTE_WRITE UINT32_C(0x4)  /* peers write it */
#define BTL_ACCESS_REMOTE_ATOMIC UINT32_C(0x8) /* peers update it atomically */
/* Beside them, for register_mem of modules with BTL_FLAG_SOLE_ATOMICS: while peers change elements of
 * the memory, only atomics of this module change elements. So the module need not use the processor's
 * atomics. Not a BTL flag. */
#define BTL_ACCESS_SOLE_ATOMICS UINT32_C(0x10)

/* Flags of one atomic, with the bits of MCA_BTL_ATOMIC_FLAG_*. */
#define BTL_OP_FLAG_WORD_32 UINT32_C(0x1) /* operands have 32 bits, in the low half */
#define BTL_OP_FLAG_FLOAT UINT32_C(0x2)   /* operands are floating point */
/* Not a BTL flag; libfabric's FI_FENCE. The target executes the atomic behind every operation that this
 * module posted to the endpoint before. If the module cannot promise this without a wait, the call
 * returns BTL_NOT_SUPPORTED and has no effect: the caller may flush and post the atomic without the
 * flag. */
#define BTL_OP_FLAG_FENCE UINT32_C(0x10000)
/* Not a BTL flag. As BTL_OP_FLAG_FENCE, and no operation before the atomic uses a local buffer any more: the
 * module has copied their bytes, and none of them fetches. With the next call of progress they and the atomic reach the
 * network, so the target sees the atomic even if this process then computes for long. Otherwise the call is refused
 * alike. */
#define BTL_OP_FLAG_COPIED UINT32_C(0x20000)
/* Not a BTL flag. Nobody waits for the atomic and for the operations that were posted to the endpoint before, so
 * the target may report their completion later, with a message of its own. */
#define BTL_OP_FLAG_UNAWAITED UINT32_C(0x40000)

/* Flags of one put or get. For modules with BTL_FLAG_CHECKS_KEYS only; other modules ignore these
 * flags. Not BTL flags. */
/* The remote handle may be of a registration that ended. The target's processor checks the handle:
 * the operation fails with BTL_PERM if the registration ended, and no part of it was executed then.
 * If another carrier would make the transfer, the call returns BTL_NOT_SUPPORTED and has no effect.
 * */
#define BTL_TRANSFER_FLAG_CHECKED UINT32_C(0x1)

/* The only value of `order`, which is reserved (MCA_BTL_NO_ORDER). */
#define BTL_NO_ORDER 255

/* Operations of atomic_op and atomic_fop, with the codes of mca_btl_base_atomic_op_t. */
#define BTL_OP_ADD UINT32_C(0x0001)
#define BTL_OP_AND UINT32_C(0x0011)
#define BTL_OP_OR UINT32_C(0x0012)
#define BTL_OP_XOR UINT32_C(0x0014)
#define BTL_OP_LAND UINT32_C(0x0015)
#define BTL_OP_LOR UINT32_C(0x0016)
#define BTL_OP_LXOR UINT32_C(0x0017)
#define BTL_OP_SWAP UINT32_C(0x001a) /* replace */
#define BTL_OP_MIN UINT32_C(0x0020)  /* minimum, signed */
#define BTL_OP_MAX UINT32_C(0x0021)  /* maximum, signed */

/* Operations of the typed AMOs, with the codes of libfabric's enum fi_op. */
#define BTL_ATOMIC_OP_MIN 0
#define BTL_ATOMIC_OP_MAX 1
#define BTL_ATOMIC_OP_SUM 2
#define BTL_ATOMIC_OP_PROD 3
#define BTL_ATOMIC_OP_LOR 4
#define BTL_ATOMIC_OP_LAND 5
#define BTL_ATOMIC_OP_BOR 6
#define BTL_ATOMIC_OP_BAND 7
#define BTL_ATOMIC_OP_LXOR 8
#define BTL_ATOMIC_OP_BXOR 9
#define BTL_ATOMIC_OP_READ 10  /* fetch without change (MPI_NO_OP) */
#define BTL_ATOMIC_OP_WRITE 11 /* replace (MPI_REPLACE) */
#define BTL_ATOMIC_OP_CSWAP 12 /* replace if equal to the compare value */

/* Element types of the typed AMOs, with the codes of libfabric's enum fi_datatype. An element is
 * aligned to its size. */
#define BTL_DATATYPE_INT8 0
#define BTL_DATATYPE_UINT8 1
#define BTL_DATATYPE_INT16 2
#define BTL_DATATYPE_UINT16 3
#define BTL_DATATYPE_INT32 4
#define BTL_DATATYPE_UINT32 5
#define BTL_DATATYPE_INT64 6
#define BTL_DATATYPE_UINT64 7
#define BTL_DATATYPE_FLOAT 8  /* 32-bit IEEE 754 */
#define BTL_DATATYPE_DOUBLE 9 /* 64-bit IEEE 754 */

/* The three kinds of AMO. A provider's support differs between these kinds. */
#define BTL_ATOMIC_KIND_UPDATE 0  /* updates the target, returns nothing */
#define BTL_ATOMIC_KIND_FETCH 1   /* updates the target and returns the old value */
#define BTL_ATOMIC_KIND_COMPARE 2 /* compares, updates and returns the old value */

/* The carrier of an operation: an index of btl_stats. */
#define BTL_CARRIER_PROVIDER 0 /* the provider's RMA and atomics */
#define BTL_CARRIER_MESSAGE 1  /* a message, which the target's processor executes */
#define BTL_CARRIER_RING 2     /* a ring in shared memory, which the target's processor executes */
#define BTL_CARRIER_CMA 3      /* cross-memory attach: the kernel copies */
#define BTL_CARRIER_COPY 4     /* a copy within this process */
#define BTL_CARRIERS 5

/* Counts since init. The module keeps running while it reads the counts, so sums may differ by the
 * operations in flight. */
typedef struct btl_stats {
    btl_table_header header; /* BTL_MAGIC_STATS; the caller sets size, the plugin writes no further */
    uint64_t posted;         /* operations posted to the provider */
    uint64_t completed;      /* operations that completed and whose callback, if any, has run */
    uint64_t failed;         /* operations that failed after they were posted */
    uint64_t again;          /* posts that the provider refused for lack of room (EAGAIN) */
    uint64_t registrations;  /* live registrations */
    uint64_t endpoints;      /* live endpoints */
    /* This field and the fields below are in ABI 1.3 and later. */
    uint64_t operations[BTL_CARRIERS]; /* operations by carrier (BTL_CARRIER_*) */
    uint64_t bytes[BTL_CARRIERS];      /* their bytes */
    uint64_t revoked;  /* ring transfers that the target did not begin in time, and that the kernel then made */
    uint64_t messages; /* messages sent, each with one or more commands */
    uint64_t waits;    /* flushes that found nothing to do for a microsecond or so */
    uint64_t waited;   /* duration of these waits, in nanoseconds */
    uint64_t polls;    /* calls that made progress */
} btl_stats;

/* The table's size in ABI 1.0. */
#define BTL_STATS_MIN_SIZE 64

/* ---- Device memory -------------------------------------------------------------------------- */

/* Kinds of memory, with the codes of libfabric's enum fi_hmem_iface. */
#define BTL_HMEM_SYSTEM 0 /* memory of this process */
#define BTL_HMEM_CUDA 1   /* CUDA devices */
#define BTL_HMEM_ROCR 2   /* ROCm devices */
#define BTL_HMEM_ZE 3     /* Level Zero devices */

/* Copies `size` bytes from device memory to contiguous memory at `dest`. The source is the
 * `hmem_iov_count` ranges of `hmem_iov`, from byte `hmem_iov_offset` on. `hmem_iface` holds the kind
 * of each range; kinds may be mixed. The copy is synchronous. Returns the number of bytes copied or a
 * negative libfabric errno: -FI_ENOSYS (-38) for an unknown kind. The function runs on any thread
 * that calls the module and on threads of the plugin. The function must not call the plugin. */
typedef ssize_t (*btl_copy_from_fn)(void *dest, size_t size, const struct iovec *hmem_iov,
                                    const uint32_t *hmem_iface, size_t hmem_iov_count,
                                    uint64_t hmem_iov_offset);

/* Copies `size` contiguous bytes at `src` to device memory; otherwise as btl_copy_from_fn. */
typedef ssize_t (*btl_copy_to_fn)(const struct iovec *hmem_iov, const uint32_t *hmem_iface,
                                  size_t hmem_iov_count, uint64_t hmem_iov_offset,
                                  const void *src, size_t size);

/* Copies blocks of device memory at regular distances to `size` contiguous bytes at `dest`, one after
 * the other: count[1] rows of count[0] blocks of `block` bytes. Block i of row j begins
 * i * stride[0] + j * stride[1] bytes after `base`. `size` is the number of bytes of all blocks, and all
 * are of kind `iface`. Otherwise as btl_copy_from_fn. */
typedef ssize_t (*btl_copy_from_strided_fn)(void *dest, size_t size, const void *base,
                                            uint32_t iface, size_t block, const size_t *stride,
                                            const size_t *count);

/* Copies `size` contiguous bytes at `src` to blocks of device memory; otherwise as
 * btl_copy_from_strided_fn. */
typedef ssize_t (*btl_copy_to_strided_fn)(void *base, uint32_t iface, size_t block,
                                          const size_t *stride, const size_t *count,
                                          const void *src, size_t size);

/* Starts the copy of btl_copy_from_fn on the user's `stream` and returns before it is complete. Writes an
 * event that btl_event_query_fn knows, or NULL if the copy is complete already. All memory stays until the
 * event is over. Returns the number of bytes that are being copied, or a negative libfabric errno if no
 * copy began. After -FI_EAGAIN (-11) the plugin uses the synchronous function instead. */
typedef ssize_t (*btl_copy_from_async_fn)(void *stream, void *dest, size_t size,
                                          const struct iovec *hmem_iov, const uint32_t *hmem_iface,
                                          size_t hmem_iov_count, uint64_t hmem_iov_offset,
                                          void **event);

/* Starts the copy of btl_copy_to_fn; otherwise as btl_copy_from_async_fn. */
typedef ssize_t (*btl_copy_to_async_fn)(void *stream, const struct iovec *hmem_iov,
                                        const uint32_t *hmem_iface, size_t hmem_iov_count,
                                        uint64_t hmem_iov_offset, const void *src, size_t size,
                                        void **event);

/* The state of a copy: 0 while it is under way, 1 when it is complete, a negative libfabric errno when it
 * failed. The function does not wait. With the last two answers the event is over, and the plugin
 * does not ask again. Any thread may ask. */
typedef int32_t (*btl_event_query_fn)(void *event);

/* The user's own copy functions of device memory. For a NULL function the plugin uses its own; it
 * always uses a function that is not NULL. */
typedef struct btl_override_ops {
    btl_table_header header; /* BTL_MAGIC_OVERRIDES */
    btl_copy_from_fn copy_from_hmem_iov;
    btl_copy_to_fn copy_to_hmem_iov;
    /* Blocks at regular distances. For NULL the plugin calls the functions above with a run for each
     * block. Since ABI 1.4, like the fields below. */
    btl_copy_from_strided_fn copy_from_hmem_strided;
    btl_copy_to_strided_fn copy_to_hmem_strided;
    /* Copies that are complete later. The plugin uses these functions for large copies of local buffers if
     * query_event is set too; then copies of several fragments overlap each other and transfers. */
    btl_copy_from_async_fn copy_from_hmem_async;
    btl_copy_to_async_fn copy_to_hmem_async;
    btl_event_query_fn query_event; /* asks for the state of such a copy */
    void *stream; /* passed to the functions for such copies as it is */
} btl_override_ops;

/* The users of the overrides. */
#define BTL_OVERRIDES_NONE 0      /* none are set */
#define BTL_OVERRIDES_TRANSPORT 1 /* the plugin */
#define BTL_OVERRIDES_PROVIDER 2  /* the plugin and the provider */
/* The answer while none are set: -FI_ENODATA. */
#define BTL_OVERRIDES_NONE_SET (-61)

/* A module's support of one kind of memory. */
typedef struct btl_hmem_info {
    btl_table_header header; /* BTL_MAGIC_HMEM_INFO; the caller sets size, the plugin writes no further */
    uint32_t provider;       /* 1 if the provider can register this kind (FI_HMEM) */
    uint32_t overrides;      /* one of BTL_OVERRIDES_* */
    uint32_t devices;        /* devices of this kind that are accessible without overrides */
    int32_t answer;          /* the provider's answer to the overrides, as a libfabric errno: 0 if it uses
                              * them, -FI_ENOSYS (-38) or another error if only the plugin does,
                              * BTL_OVERRIDES_NONE_SET if none are set. Plugins before ABI 1.4 write 0. */
    uint64_t direct;         /* live registrations that the provider accesses itself, of all kinds */
    uint64_t staged;         /* live registrations that the plugin accesses by copies, of all kinds */
} btl_hmem_info;

/* ---- The functions of a module -------------------------------------------------------------- */

/*
 * Operations (put, get, put_notify and all atomics) return BTL_SUCCESS when they are in flight, and
 * BTL_COMPLETED when they completed before the call returned; then no callback runs. On any other
 * status the call had no effect and no callback runs. BTL_TEMP_OUT_OF_RESOURCE: call progress and
 * try again. BTL_NOT_SUPPORTED: the provider does not support the operation. BTL_UNREACH: the peer
 * is gone. If `callback` is NULL, only flush reports completion. The caller must not use local
 * buffers until completion. `order` is BTL_NO_ORDER. `remote_address` is the virtual address in the
 * target's process, `remote_handle` a copy of the handle that the target made.
 */
struct btl_module_vtable {
    btl_table_header header; /* BTL_MAGIC_MODULE */

    /* Makes endpoints for `count` processes; writes NULL for a process that cannot be reached. A
     * process that was added before gets its existing endpoint, counted once more. The calling
     * process is a peer like any other. On an error no process is added, and all written endpoints
     * are NULL. */
    btl_status (*add_procs)(btl_module *module, size_t count, const uint64_t *procs,
                            btl_endpoint **endpoints);

    /* Releases each endpoint once. The last release of an endpoint first waits for its outstanding
     * operations. */
    btl_status (*del_procs)(btl_module *module, size_t count, btl_endpoint *const *endpoints);

    /* Registers memory for BTL_ACCESS_*; `endpoint` may be NULL. The module owns the handle until
     * deregister_mem. The handle contains the rights: an operation that a peer's copy does not allow
     * returns BTL_PERM and has no effect. An atomic needs BTL_ACCESS_REMOTE_ATOMIC; a plugin may
     * instead accept the rights for the atomic's own accesses: read, write or both.
     * BTL_OUT_OF_RESOURCE: the provider has no room. BTL_BAD_PARAM: peers cannot use the memory with these
     * rights, because it is read-only, behind the end of its file, or not mapped. The memory must stay
     * usable until deregister_mem. BTL_ACCESS_SOLE_ATOMICS may be added to the rights. */
    btl_status (*register_mem)(btl_module *module, btl_endpoint *endpoint, void *base, size_t size,
                               uint32_t access, btl_handle **handle);

    /* Ends a registration. BTL_BAD_PARAM: not a live handle of this module. Before this call, peers
     * must complete their operations on the handle, and they must start none afterwards. The effect
     * of a later operation with a peer's copy of the handle depends on its path: it may be refused,
     * access the memory while that is mapped, or access another registration that got the same key.
     * So the host informs the peers first and keeps the memory until they know. Puts and gets with
     * BTL_TRANSFER_FLAG_CHECKED are refused. */
    btl_status (*deregister_mem)(btl_module *module, btl_handle *handle);

    /* Writes `size` bytes. `local_handle` may be NULL up to the local registration threshold. `flags`
     * are BTL_TRANSFER_FLAG_*. */
    btl_status (*put)(btl_module *module, btl_endpoint *endpoint, void *local_address,
                      uint64_t remote_address, btl_handle *local_handle,
                      const btl_handle *remote_handle, size_t size, uint32_t flags, int32_t order,
                      btl_completion_fn callback, void *context, void *data);

    /* Reads `size` bytes. `local_handle` may be NULL up to the local registration threshold. `flags` as
     * for `put`. */
    btl_status (*get)(btl_module *module, btl_endpoint *endpoint, void *local_address,
                      uint64_t remote_address, btl_handle *local_handle,
                      const btl_handle *remote_handle, size_t size, uint32_t flags, int32_t order,
                      btl_completion_fn callback, void *context, void *data);

    /* AMO: updates a word. `op` is one of BTL_OP_*, `flags` are BTL_OP_FLAG_*. */
    btl_status (*atomic_op)(btl_module *module, btl_endpoint *endpoint, uint64_t remote_address,
                            const btl_handle *remote_handle, uint32_t op, uint64_t operand,
                            uint32_t flags, int32_t order, btl_completion_fn callback,
                            void *context, void *data);

    /* AMO: updates a word and fetches the old value to `local_address`. */
    btl_status (*atomic_fop)(btl_module *module, btl_endpoint *endpoint, void *local_address,
                             uint64_t remote_address, btl_handle *local_handle,
                             const btl_handle *remote_handle, uint32_t op, uint64_t operand,
                             uint32_t flags, int32_t order, btl_completion_fn callback,
                             void *context, void *data);

    /* AMO: writes `value` if the word equals `compare`, and fetches the old value. */
    btl_status (*atomic_cswap)(btl_module *module, btl_endpoint *endpoint, void *local_address,
                               uint64_t remote_address, btl_handle *local_handle,
                               const btl_handle *remote_handle, uint64_t compare, uint64_t value,
                               uint32_t flags, int32_t order, btl_completion_fn callback,
                               void *context, void *data);

    /* Waits until every earlier operation of the calling thread to `endpoint`, or to all endpoints
     * if it is NULL, is complete and its callback has run. Operations that other threads issue later
     * do not prolong the wait. A negative status: operations without callback failed since the last
     * flush, or a peer is gone; flush returns in these cases too. */
    btl_status (*flush)(btl_module *module, btl_endpoint *endpoint);

    /* Sets the callback for failures that no completion callback reports; replaces an earlier one. */
    btl_status (*register_error)(btl_module *module, btl_error_fn callback, void *context);

    /* Queries the support of `op` (BTL_ATOMIC_OP_*) on `datatype` (BTL_DATATYPE_*) for one `kind`
     * (BTL_ATOMIC_KIND_*): writes the largest number of elements of one call. BTL_NOT_SUPPORTED: the
     * module does not support the operation. */
    btl_status (*atomic_query)(btl_module *module, uint32_t datatype, uint32_t op, uint32_t kind,
                               size_t *max_count);

    /* Typed AMO: updates `count` elements with the operands at `local_address`, each element
     * atomically. `remote_address` is aligned to the element. */
    btl_status (*atomic_opv)(btl_module *module, btl_endpoint *endpoint, const void *local_address,
                             uint64_t remote_address, btl_handle *local_handle,
                             const btl_handle *remote_handle, uint32_t datatype, uint32_t op,
                             size_t count, btl_completion_fn callback, void *context, void *data);

    /* Typed AMO: as atomic_opv, and fetches the old values to `result_address`. `local_address` may
     * be NULL for BTL_ATOMIC_OP_READ. The callback gets `result_address` as its local_address. */
    btl_status (*atomic_fopv)(btl_module *module, btl_endpoint *endpoint, const void *local_address,
                              void *result_address, uint64_t remote_address,
                              btl_handle *local_handle, btl_handle *result_handle,
                              const btl_handle *remote_handle, uint32_t datatype, uint32_t op,
                              size_t count, btl_completion_fn callback, void *context, void *data);

    /* Typed AMO: if one element equals the value at `compare_address`, writes the value at
     * `local_address` to it; fetches the old value to `result_address`. The plugin copies operand and
     * compare value before the call returns. */
    btl_status (*atomic_cswapv)(btl_module *module, btl_endpoint *endpoint,
                                const void *local_address, const void *compare_address,
                                void *result_address, uint64_t remote_address,
                                btl_handle *result_handle, const btl_handle *remote_handle,
                                uint32_t datatype, btl_completion_fn callback, void *context,
                                void *data);

    /* Writes the module's counts. */
    btl_status (*stats)(btl_module *module, btl_stats *stats);

    /* Ends the module: flushes, closes everything that it holds and frees it. */
    btl_status (*finalize)(btl_module *module);

    /* Since ABI 1.1; this and the entries below may be NULL. Sets the copy functions of device memory.
     * The functions apply at once to all registrations of the module, also earlier ones: operations
     * that begin later use them, and so do requests of peers that are served later. Operations under
     * way keep the earlier functions for their local buffers. NULL restores the plugin's own
     * functions. All functions stay callable until finalize. */
    btl_status (*set_overrides)(btl_module *module, const btl_override_ops *ops);

    /* Registers memory of kind `iface` (BTL_HMEM_*) on device number `device` of that kind; otherwise
     * as register_mem. deregister_mem ends it. Operations accept the handle as a remote handle and,
     * mandatorily, as the local handle of a buffer in that memory. If the provider cannot
     * register the memory, the plugin accesses it by copies: then the owner must make progress for its
     * peers, or btl_ofi_hmem_thread does. BTL_NOT_SUPPORTED: neither provider nor plugin supports this
     * kind. */
    btl_status (*register_hmem)(btl_module *module, btl_endpoint *endpoint, void *base, size_t size,
                                uint32_t access, uint32_t iface, uint64_t device,
                                btl_handle **handle);

    /* Copies from device memory as the module itself does, with the current overrides. The arguments
     * and the result are those of btl_copy_from_fn. */
    int64_t (*copy_from_hmem_iov)(btl_module *module, void *dest, size_t size,
                                  const struct iovec *hmem_iov, const uint32_t *hmem_iface,
                                  size_t hmem_iov_count, uint64_t hmem_iov_offset);

    /* Copies to device memory as the module itself does, with the current overrides. The arguments
     * and the result are those of btl_copy_to_fn. */
    int64_t (*copy_to_hmem_iov)(btl_module *module, const struct iovec *hmem_iov,
                                const uint32_t *hmem_iface, size_t hmem_iov_count,
                                uint64_t hmem_iov_offset, const void *src, size_t size);

    /* Writes the module's support of one kind of memory. */
    btl_status (*query_hmem)(btl_module *module, uint32_t iface, btl_hmem_info *info);

    /* Since ABI 1.2; this and the entries below may be NULL. Those up to register_receive work if the
     * module has BTL_FLAG_SEND. Makes a descriptor for a message of `size` bytes, or of the longest possible
     * message if that is smaller; NULL if there is no memory. The descriptor belongs to the caller until free. */
    btl_descriptor *(*alloc)(btl_module *module, btl_endpoint *endpoint, size_t size);

    /* Ends a descriptor. */
    btl_status (*free)(btl_module *module, btl_descriptor *descriptor);

    /* Makes a descriptor for `reserve` bytes, which the caller writes, and the `*size` bytes at
     * `source`, or fewer if the message would be too long; writes their number to `*size`. The source
     * must not change until the message is sent. NULL if there is no room behind the reserve. */
    btl_descriptor *(*prepare_src)(btl_module *module, btl_endpoint *endpoint, const void *source,
                                   size_t reserve, size_t *size);

    /* Sends a message to the function that the peer's host has set for the tag. BTL_COMPLETED: the
     * message was taken, and the descriptor belongs to the caller again; the message may leave only
     * in later calls of progress (a first message waits for a connection). Messages to one peer
     * arrive in the order in which they are sent; messages to a peer that fails are lost.
     * BTL_TEMP_OUT_OF_RESOURCE: too many messages wait for this peer; call progress and try again.
     * */
    btl_status (*send)(btl_module *module, btl_endpoint *endpoint, btl_descriptor *descriptor,
                       uint8_t tag);

    /* Sends a header and a payload as one message, without a descriptor; otherwise as send.
     * BTL_BAD_PARAM: the message is too long. */
    btl_status (*sendi)(btl_module *module, btl_endpoint *endpoint, const void *header,
                        size_t header_size, const void *payload, size_t payload_size,
                        uint8_t tag);

    /* Sets the function that receives the messages with a tag; NULL: the messages are dropped. The
     * function runs in progress, on any thread that makes progress, for one message at a time. */
    btl_status (*register_receive)(btl_module *module, uint8_t tag, btl_receive_fn receive,
                                   void *context);

    /* Writes `size` bytes as put, then adds `add` to the counter of 64 bits at `counter_address` of the
     * target, a multiple of 8 in the region of `counter_handle`, which is host memory and allows
     * atomics. A process that sees the counter raised also sees the bytes; it reads the counter by an
     * atomic load, with acquire order. The operation is complete when both steps are done. If the put
     * fails, the counter is not raised. With a `size` of 0, only the counter is raised. Several puts
     * may raise their counters in any order. BTL_NOT_SUPPORTED: the module has no such atomic. */
    btl_status (*put_notify)(btl_module *module, btl_endpoint *endpoint, void *local_address,
                             uint64_t remote_address, btl_handle *local_handle,
                             const btl_handle *remote_handle, size_t size,
                             uint64_t counter_address, const btl_handle *counter_handle,
                             uint64_t add, btl_completion_fn callback, void *context, void *data);

    /* Since ABI 1.4; this and the entries below may be NULL. Copies blocks at regular distances from device
     * memory as the module itself would, with the current overrides. The arguments and the result are
     * those of btl_copy_from_strided_fn. */
    int64_t (*copy_from_hmem_strided)(btl_module *module, void *dest, size_t size, const void *base,
                                      uint32_t iface, size_t block, const size_t *stride,
                                      const size_t *count);

    /* Copies contiguous bytes to blocks of device memory, under the same rules; see
     * btl_copy_to_strided_fn. */
    int64_t (*copy_to_hmem_strided)(btl_module *module, void *base, uint32_t iface, size_t block,
                                    const size_t *stride, const size_t *count, const void *src,
                                    size_t size);

    /* register_mem for memory that is a shared mapping of the file of descriptor `fd`, from byte
     * `offset` of it on. If the file lies in memory (memfd_create) and is sealed against shrinking
     * (F_SEAL_SHRINK), the plugin may let local peers map it; other memory is accessed as if
     * register_mem had been called. The plugin does not use the descriptor after this call.
     * BTL_BAD_PARAM: the memory cannot be at this place of the file. */
    btl_status (*register_shared)(btl_module *module, btl_endpoint *endpoint, void *base, size_t size,
                                  uint32_t access, int fd, uint64_t offset, btl_handle **handle);

    /* Since ABI 1.5; this and the entries below may be NULL. Changes elements of any size and alignment,
     * which lie in runs of the region from `remote_address` on. The target's processor executes this one
     * command in its progress. Commands to one peer take effect in the order of its
     * atomics. Atomics of the processor change elements of 1, 2, 4 or 8 bytes that are aligned to their
     * size, so these exclude the AMOs; other elements exclude each other only. The module makes the
     * operation itself if the typed AMOs have it and the element is aligned. Otherwise it calls the
     * function that the target's host has registered; READ, WRITE and CSWAP need none. Everything is
     * checked before the first element is changed. BTL_NOT_SUPPORTED: the network card executes the
     * atomics to this peer and must change these elements, so use AMOs; or no message
     * reaches the peer; or, in the completion, the target knows no such function.
     * BTL_VALUE_OUT_OF_BOUNDS: larger than BTL_MOST_APPLIED, or a run is outside of the region. */
    btl_status (*apply)(btl_module *module, btl_endpoint *endpoint, uint64_t remote_address,
                        const btl_handle *remote_handle, const btl_apply_request *request,
                        btl_completion_fn callback, void *context, void *data);

    /* Sets the function that executes operations for which the module has no instruction: operations of
     * peers, and this process's own to itself. Replaces an earlier function; NULL removes the
     * function. The function stays callable until finalize. */
    btl_status (*register_apply)(btl_module *module, btl_apply_fn function, void *context);
};

/* The table's size in ABI 1.0, on platforms with 64-bit pointers. */
#define BTL_MODULE_VTABLE_MIN_SIZE 152

/* ---- The component -------------------------------------------------------------------------- */

/* MPI's thread levels. */
#define BTL_THREAD_SINGLE 0     /* one thread */
#define BTL_THREAD_FUNNELED 1   /* only the thread that called init makes calls */
#define BTL_THREAD_SERIALIZED 2 /* any thread makes calls, one at a time */
#define BTL_THREAD_MULTIPLE 3   /* several threads make calls at the same time */

/* One provider that a survey found. */
typedef struct btl_provider {
    const char *name;    /* name, as fi_info prints it */
    const char *domain;  /* domain (device) */
    const char *refusal; /* the reason against it, or NULL if it can be used */
    uint32_t chosen;     /* 1 for the provider that init would select, else 0 */
    uint32_t reserved;   /* written as zero */
} btl_provider;

/* Receives one provider of a survey. `provider` is borrowed for the call. */
typedef void (*btl_survey_fn)(void *context, const btl_provider *provider);

/* The functions of a component. The host calls register_params, open and init in this order, then
 * progress and the modules' functions, then finalize of each module, then close. */
typedef struct btl_component_vtable {
    btl_table_header header; /* BTL_MAGIC_COMPONENT */
    const char *name;        /* the component's name, e.g. ofi; static in the plugin */
    const char *version;     /* version and libraries of the build, as text; static */

    /* Declares every parameter with the host. No component needs to be open. */
    btl_status (*register_params)(const btl_host_vtable *host);

    /* Reads the parameters and makes a component. `host` stays valid until close. */
    btl_status (*open)(const btl_host_vtable *host, btl_component **out);

    /* Calls `visit` for every provider, usable or not. */
    btl_status (*survey)(btl_component *component, btl_survey_fn visit, void *context);

    /* Makes the modules: writes at most `*count` pointers to `modules` and their number to `count`.
     * Publishes their addresses with the host's modex_put. `thread_level` is one of BTL_THREAD_*.
     * BTL_NOT_AVAILABLE: no provider can be used; the plugin has logged the reasons. */
    btl_status (*init)(btl_component *component, uint32_t thread_level, btl_module **modules,
                       size_t *count);

    /* Makes progress on every module; returns the number of completions, or more if it served
     * peers, or a negative status. A callback may call this function. */
    int32_t (*progress)(btl_component *component);

    /* Ends the component: finalises its live modules and frees it. */
    btl_status (*close)(btl_component *component);
} btl_component_vtable;

/* The table's size in ABI 1.0, on platforms with 64-bit pointers. */
#define BTL_COMPONENT_VTABLE_MIN_SIZE 80

/* The exported function of a plugin, which the host calls once per load. The function checks `host`,
 * writes the component's table to `out` and changes nothing else. BTL_TYPE_MISMATCH: the host's table
 * cannot be used. */
typedef btl_status (*btl_entry_fn)(const btl_host_vtable *host, const btl_component_vtable **out);

/* A plugin defines this function; a host finds it with dlsym(BTL_ENTRY_SYMBOL). */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
btl_status btl_plugin_entry_v1(const btl_host_vtable *host, const btl_component_vtable **out);

#ifdef __cplusplus
}
#endif

#endif /* BTL_PLUGIN_H */
