/* Macros for the examples. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_stub.h"

/* Ends the process if a call fails that must succeed. */
#define MUST(call)                                                                                     \
    do {                                                                                               \
        int code_ = (call);                                                                            \
        if (code_ < 0) {                                                                               \
            fprintf(stderr, "%s:%d: %s: %d, %s\n", __FILE__, __LINE__, #call, code_, host_error_text()); \
            exit(1);                                                                                   \
        }                                                                                              \
    } while (0)

/* Ends the process if a condition is false. */
#define EXPECT(what)                                                                        \
    do {                                                                                    \
        if (!(what)) {                                                                      \
            fprintf(stderr, "%s:%d: not so: %s; %s\n", __FILE__, __LINE__, #what, host_error_text()); \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

#endif
