/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The services that host.c offers a plugin: parameters from the command line and the environment, a
 * modex between two processes over a socket pair, and a log on stderr.
 */
#ifndef SERVICES_H
#define SERVICES_H

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "btl_plugin.h"

#define MODEX_ENTRIES 16
#define MODEX_BYTES 4096

struct modex_entry {
    char key[64];
    uint64_t size;
    unsigned char data[MODEX_BYTES];
};

struct host {
    uint64_t rank;
    int socket;     /* to the partner */
    char **settings; /* NAME=VALUE, NULL-terminated */
    int32_t (*progress)(btl_component *component);
    btl_component *component;
    struct modex_entry entries[2][MODEX_ENTRIES]; /* by rank */
    uint64_t count[2];
    unsigned parameters; /* declared so far */
};

static inline void host_die(const struct host *host, const char *what)
{
    fprintf(stderr, "rank %llu: %s: %s\n", (unsigned long long)host->rank, what, strerror(errno));
    exit(2);
}

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
    case BTL_PARAM_DOUBLE:
        value->bits.d = strtod(text, &end);
        break;
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
    host->parameters++;
    *value = decl->default_value;
    text = host_setting(host, decl->name);
    for (const char *const *synonym = decl->synonyms; text == NULL && synonym != NULL && *synonym;
         synonym++)
        text = host_setting(host, *synonym);
    if (text == NULL || host_parse(text, decl, value))
        return BTL_SUCCESS;
    fprintf(stderr, "rank %llu: parameter %s: \"%s\" cannot be used\n",
            (unsigned long long)host->rank, decl->name, text);
    return BTL_BAD_PARAM;
}

static inline btl_status host_modex_put(void *context, const char *key, const void *data,
                                        size_t size)
{
    struct host *host = context;
    struct modex_entry *entry = &host->entries[host->rank][host->count[host->rank]];
    if (host->count[host->rank] == MODEX_ENTRIES || size > MODEX_BYTES ||
        strlen(key) >= sizeof entry->key)
        return BTL_OUT_OF_RESOURCE;
    strcpy(entry->key, key);
    entry->size = size;
    memcpy(entry->data, data, size);
    host->count[host->rank]++;
    return BTL_SUCCESS;
}

static inline btl_status host_modex_get(void *context, uint64_t proc, const char *key, void *data,
                                        size_t capacity, size_t *size)
{
    struct host *host = context;
    for (uint64_t at = 0; proc < 2 && at < host->count[proc]; at++) {
        struct modex_entry *entry = &host->entries[proc][at];
        if (strcmp(entry->key, key) == 0) {
            *size = entry->size;
            memcpy(data, entry->data, entry->size < capacity ? entry->size : capacity);
            return BTL_SUCCESS;
        }
    }
    return BTL_NOT_FOUND;
}

static inline void host_log(void *context, uint32_t level, const char *line, size_t size)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    const struct host *host = context;
    if (level <= BTL_LOG_WARN || getenv("HOST_VERBOSE") != NULL)
        fprintf(stderr, "rank %llu: plugin %s: %.*s\n", (unsigned long long)host->rank,
                names[level <= BTL_LOG_DEBUG ? level : BTL_LOG_DEBUG], (int)size, line);
}

/* Sends all of `mine` and fills `theirs`, and makes progress of the plugin meanwhile, because
 * the partner may wait for this process's part of an operation. */
static inline void host_exchange(struct host *host, const void *mine, void *theirs, size_t size)
{
    size_t sent = 0, received = 0;
    while (sent < size || received < size) {
        struct pollfd fd = {.fd = host->socket,
                            .events = (short)((sent < size ? POLLOUT : 0) | POLLIN)};
        if (host->component != NULL)
            host->progress(host->component);
        if (poll(&fd, 1, host->component != NULL ? 0 : 1000) <= 0)
            continue;
        if (fd.revents & POLLOUT) {
            ssize_t moved = send(host->socket, (const char *)mine + sent, size - sent,
                                 MSG_DONTWAIT | MSG_NOSIGNAL);
            if (moved < 0 && errno != EAGAIN)
                host_die(host, "the partner is gone");
            sent += moved > 0 ? (size_t)moved : 0;
        }
        if (received < size && fd.revents & (POLLIN | POLLHUP)) {
            ssize_t moved =
                recv(host->socket, (char *)theirs + received, size - received, MSG_DONTWAIT);
            if (moved == 0 || (moved < 0 && errno != EAGAIN))
                host_die(host, "the partner is gone");
            received += moved > 0 ? (size_t)moved : 0;
        }
    }
}

static inline void host_barrier(struct host *host)
{
    char mine = 1, theirs = 0;
    host_exchange(host, &mine, &theirs, 1);
}

static inline void host_modex_exchange(struct host *host)
{
    uint64_t other = 1 - host->rank;
    host_exchange(host, &host->count[host->rank], &host->count[other], sizeof host->count[0]);
    host_exchange(host, host->entries[host->rank], host->entries[other], sizeof host->entries[0]);
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
