/* Shared by the examples. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_stub.h"

/* Ends the process where a call fails that must not. */
#define MUST(call)                                                                                     \
    do {                                                                                               \
        int code_ = (call);                                                                            \
        if (code_ < 0) {                                                                               \
            fprintf(stderr, "%s:%d: %s: %d, %s\n", __FILE__, __LINE__, #call, code_, host_error_text()); \
            exit(1);                                                                                   \
        }                                                                                              \
    } while (0)

/* Ends the process where something is not as it must be. */
#define EXPECT(what)                                                                        \
    do {                                                                                    \
        if (!(what)) {                                                                      \
            fprintf(stderr, "%s:%d: not so: %s; %s\n", __FILE__, __LINE__, #what, host_error_text()); \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

#endif
