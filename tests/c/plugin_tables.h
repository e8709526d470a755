/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of plugin.c that hosts see: the module's table and attributes. The invalid
 * variants differ from the valid one here and in plugin_component.h.
 */

#ifdef FUTURE
#define ABI_MINOR_HERE (BTL_ABI_MINOR + 1)
#else
#define ABI_MINOR_HERE BTL_ABI_MINOR
#endif

#ifdef FUTURE
typedef future_module_vtable module_table;
typedef future_attributes attributes_table;
typedef future_component_vtable component_table;
#define V1_0(...) .v1_0 = {__VA_ARGS__}
#else
typedef btl_module_vtable module_table;
typedef btl_attributes attributes_table;
typedef btl_component_vtable component_table;
#define V1_0(...) __VA_ARGS__
#endif

static const module_table module_vtable = {
    V1_0(
#ifdef BAD_MODULE_MAJOR
        .header = {BTL_MAGIC_MODULE, BTL_ABI_MAJOR + 1, 3, sizeof(module_table)},
#else
        .header = {BTL_MAGIC_MODULE, BTL_ABI_MAJOR, ABI_MINOR_HERE, sizeof(module_table)},
#endif
        .add_procs = add_procs, .del_procs = del_procs, .register_mem = register_mem,
        .deregister_mem = deregister_mem, .put = put, .get = get, .atomic_op = atomic_op,
        .atomic_fop = atomic_fop, .atomic_cswap = atomic_cswap,
#ifndef BAD_MODULE_ENTRY
        .flush = flush,
#endif
        .register_error = register_error, .atomic_query = atomic_query, .atomic_opv = atomic_opv,
        .atomic_fopv = atomic_fopv, .atomic_cswapv = atomic_cswapv, .stats = stats,
        .finalize = finalize, .apply = apply, .register_apply = register_apply),
};

static const attributes_table module_attributes = {
    V1_0(
        .header = {BTL_MAGIC_ATTRIBUTES, BTL_ABI_MAJOR, ABI_MINOR_HERE,
#ifdef BAD_ATTRIBUTES_SIZE
                   BTL_ATTRIBUTES_MIN_SIZE - 8},
#else
                   sizeof(attributes_table)},
#endif
        .flags = BTL_FLAG_PUT | BTL_FLAG_GET | BTL_FLAG_RDMA_REMOTE_COMPLETION |
                 BTL_FLAG_ATOMIC_OPS | BTL_FLAG_ATOMIC_FOPS | BTL_FLAG_RDMA_FLUSH |
                 BTL_FLAG_ATOMICS_ORDERED | BTL_FLAG_RDMA_PASSIVE_TARGET | BTL_FLAG_APPLIES,
        .atomic_flags = BTL_ATOMIC_ADD | BTL_ATOMIC_AND | BTL_ATOMIC_OR | BTL_ATOMIC_XOR |
                        BTL_ATOMIC_LAND | BTL_ATOMIC_LOR | BTL_ATOMIC_LXOR | BTL_ATOMIC_SWAP |
                        BTL_ATOMIC_MIN | BTL_ATOMIC_MAX | BTL_ATOMIC_WORD_32 | BTL_ATOMIC_FLOAT |
                        BTL_ATOMIC_CSWAP,
        .put_limit = SIZE_MAX, .get_limit = SIZE_MAX,
        .put_local_registration_threshold = THRESHOLD,
        .get_local_registration_threshold = THRESHOLD,
#ifdef BAD_HANDLE_SIZE
        .handle_size = sizeof(btl_handle) + 4,
#else
        .handle_size = sizeof(btl_handle),
#endif
        .latency = 1, .bandwidth = 40000, .exclusivity = 1, .contexts = 1, .provider = "cma",
        .domain = "node",
        .completion = "the kernel copies into the target's memory before the call returns"),
#ifdef FUTURE
    .region_limit = REGION_LIMIT,
#endif
};
