/* libpmix as under a launcher that reports no rank's host and no node's number. All other functions are the
 * installed library's, whose path is REAL. The functions are those that the host uses; their arguments are
 * passed on unread. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#define NOT_FOUND (-46)

static void *real(const char *name) {
    static void *library;
    /* The library is loaded globally: its components need libpmix.so.2, and get this file
     * for it. */
    if (library == NULL)
        library = dlopen(REAL, RTLD_NOW | RTLD_GLOBAL);
    return library == NULL ? NULL : dlsym(library, name);
}

#define PASS_ON(result, name, parameters, arguments)                                                                   \
    result name parameters {                                                                                           \
        result(*function) parameters = (result(*) parameters)real(#name);                                              \
        return function arguments;                                                                                     \
    }

PASS_ON(int, PMIx_Init, (void *proc, void *info, size_t count), (proc, info, count))
PASS_ON(int, PMIx_Finalize, (const void *info, size_t count), (info, count))
PASS_ON(int, PMIx_Put, (unsigned char scope, const char *key, void *value), (scope, key, value))
PASS_ON(int, PMIx_Commit, (void), ())
PASS_ON(int, PMIx_Fence_nb,
        (const void *procs, size_t ranks, const void *info, size_t count, void (*done)(int, void *), void *data),
        (procs, ranks, info, count, done, data))
PASS_ON(int, PMIx_Abort, (int status, const char *message, void *procs, size_t count),
        (status, message, procs, count))
PASS_ON(const char *, PMIx_Error_string, (int status), (status))
PASS_ON(const char *, PMIx_Get_version, (void), ())

int PMIx_Get(const void *proc, const char *key, const void *info, size_t count, void **value) {
    int (*function)(const void *, const char *, const void *, size_t, void **) =
        (int (*)(const void *, const char *, const void *, size_t, void **))real("PMIx_Get");
    if (strcmp(key, "pmix.hname") == 0 || strcmp(key, "pmix.nodeid") == 0)
        return NOT_FOUND;
    return function(proc, key, info, count, value);
}
