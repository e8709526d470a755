/* The preloaded library makes a structure of Open MPI's core library larger, as CUDA support does: this
 * class describes the structure, and is a copy of the library's class except for the size. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

/* The same structure as in opal_object.h. */
struct opal_class {
    const char *name;
    struct opal_class *parent;
    void (*construct)(void *);
    void (*destruct)(void *);
    int initialized, depth;
    void *construct_all, *destruct_all;
    size_t size;
} opal_convertor_t_class;

__attribute__((constructor)) static void copy(void)
{
    void *own = dlsym(RTLD_NEXT, "opal_convertor_t_class");
    if (own) {
        memcpy(&opal_convertor_t_class, own, sizeof(opal_convertor_t_class));
        opal_convertor_t_class.size += 16;
    }
}
