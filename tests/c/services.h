/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The services that a host of one process offers a plugin: parameters from the command line and the environment, items
 * that the plugin publishes for itself, and a log on stderr.
 */
#ifndef SERVICES_H
#define SERVICES_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "btl_plugin.h"

struct host {
    char **settings; /* NAME=VALUE, NULL-terminated */
    char key[64];    /* items that the plugin published */
    size_t size;
    unsigned char data[4096];
};

/* The user's value of a parameter, or NULL. */
static inline const char *host_setting(const struct host *host, const char *name)
{
    char variable[128];
    size_t length = strlen(name);
    for (char **setting = host->settings; *setting != NULL; setting++)
        if (strncmp(*setting, name, length) == 0 && (*setting)[length] == '=')
            return *setting + length + 1;
    snprintf(variable, sizeof variable, "OMPI_MCA_%s", name);
    return getenv(variable);
}

static inline bool host_parse(const char *text, const btl_param_decl *decl, btl_param_value *value)
{
    char *end = NULL;
    switch (value->kind) {
    case BTL_PARAM_STRING:
        value->bits.s = text; /* the text is in argv or the environment, and outlives the component */
        return true;
    case BTL_PARAM_INT:
        value->bits.i = strtoll(text, &end, 0);
        if (decl->min <= decl->max && (value->bits.i < decl->min || value->bits.i > decl->max))
            return false;
        break;
    case BTL_PARAM_BOOL:
        value->bits.u = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
        return value->bits.u || strcmp(text, "false") == 0 || strcmp(text, "0") == 0;
    default:
        value->bits.u = strtoull(text, &end, 0);
        if (decl->min <= decl->max &&
            (value->bits.u > INT64_MAX || (int64_t)value->bits.u < decl->min ||
             (int64_t)value->bits.u > decl->max))
            return false;
    }
    return end != text && *end == '\0';
}

static inline btl_status host_param_register(void *context, const btl_param_decl *decl,
                                             btl_param_value *value)
{
    struct host *host = context;
    const char *text;
    if (decl == NULL || value == NULL || decl->name == NULL)
        return BTL_BAD_PARAM;
    *value = decl->default_value;
    text = host_setting(host, decl->name);
    for (const char *const *synonym = decl->synonyms; text == NULL && synonym != NULL && *synonym;
         synonym++)
        text = host_setting(host, *synonym);
    if (text == NULL || host_parse(text, decl, value))
        return BTL_SUCCESS;
    fprintf(stderr, "parameter %s: \"%s\" cannot be used\n", decl->name, text);
    return BTL_BAD_PARAM;
}

static inline btl_status host_modex_put(void *context, const char *key, const void *data,
                                        size_t size)
{
    struct host *host = context;
    if (size > sizeof host->data || strlen(key) >= sizeof host->key)
        return BTL_OUT_OF_RESOURCE;
    strcpy(host->key, key);
    host->size = size;
    memcpy(host->data, data, size);
    return BTL_SUCCESS;
}

static inline btl_status host_modex_get(void *context, uint64_t proc, const char *key, void *data,
                                        size_t capacity, size_t *size)
{
    struct host *host = context;
    if (proc != 0 || strcmp(host->key, key) != 0)
        return BTL_NOT_FOUND;
    *size = host->size;
    memcpy(data, host->data, host->size < capacity ? host->size : capacity);
    return BTL_SUCCESS;
}

static inline void host_log(void *context, uint32_t level, const char *line, size_t size)
{
    (void)context;
    if (level <= BTL_LOG_WARN)
        fprintf(stderr, "%.*s\n", (int)size, line);
}

static inline const btl_host_vtable *host_table(void *context)
{
    static btl_host_vtable table;
    table = (btl_host_vtable){
        .header = BTL_TABLE_HEADER(btl_host_vtable, BTL_MAGIC_HOST),
        .context = context,
        .param_register = host_param_register,
        .modex_put = host_modex_put,
        .modex_get = host_modex_get,
        .log = host_log,
    };
    return &table;
}

#endif
