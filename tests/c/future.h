/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables of an imagined next ABI, each grown at its end, for the tests that put a newer side
 * before an older one. Built with -DFUTURE, host.c and plugin.c speak it and fall back to this one
 * where the other side's table is too short; built without, they have never heard of it.
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
    uint64_t region_limit; /* registrations that may live at once */
} future_attributes;

typedef struct future_module_vtable {
    btl_module_vtable v1_0;
    /* Writes the host's job size as the module knows it, 0 if its host could not tell. */
    btl_status (*job_size)(btl_module *module, uint64_t *size);
} future_module_vtable;

typedef struct future_component_vtable {
    btl_component_vtable v1_0;
    /* The number of modules that live now. */
    uint32_t (*modules)(btl_component *component);
} future_component_vtable;

/* Whether the table at `table` is the start of a `type` that holds `field`. */
#define FUTURE_HOLDS(table, type, field) \
    ((size_t)(table)->header.size >= offsetof(type, field) + sizeof(((type *)0)->field))

#endif
