/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables of an imagined next ABI, each with a new entry at its end, which no present host knows. With -DFUTURE, plugin.c
 * has these tables.
 */
#ifndef FUTURE_H
#define FUTURE_H

#include "btl_plugin.h"

typedef struct future_attributes {
    btl_attributes v1_0;
    uint64_t region_limit; /* maximum number of registrations at a time */
} future_attributes;

typedef struct future_module_vtable {
    btl_module_vtable v1_0;
    btl_status (*later)(btl_module *module);
} future_module_vtable;

typedef struct future_component_vtable {
    btl_component_vtable v1_0;
    uint32_t (*later)(btl_component *component);
} future_component_vtable;

#endif
