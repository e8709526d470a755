/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables of an imagined next ABI, each with new entries at its end, for tests of a newer side
 * with an older one. With -DFUTURE, host.c and plugin.c use this ABI, and fall back to the present
 * ABI if the other side's table is too short. Without it, they do not know this ABI.
 */
#ifndef FUTURE_H
#define FUTURE_H

#include "btl_plugin.h"

typedef struct future_host_vtable {
    btl_host_vtable v1_0;
    /* Number of processes of the job. */
    uint64_t (*job_size)(void *context);
} future_host_vtable;

typedef struct future_attributes {
    btl_attributes v1_0;
    uint64_t region_limit; /* maximum number of registrations at a time */
} future_attributes;

typedef struct future_module_vtable {
    btl_module_vtable v1_0;
    /* Writes the module's value of the host's job size; 0 if the host did not provide
     * it. */
    btl_status (*job_size)(btl_module *module, uint64_t *size);
} future_module_vtable;

typedef struct future_component_vtable {
    btl_component_vtable v1_0;
    /* The number of living modules. */
    uint32_t (*modules)(btl_component *component);
} future_component_vtable;

/* Whether the table at `table` is large enough for `field` of `type`. */
#define FUTURE_HOLDS(table, type, field) \
    ((size_t)(table)->header.size >= offsetof(type, field) + sizeof(((type *)0)->field))

#endif
