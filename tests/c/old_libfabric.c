/* A substitute for libfabric 1.MINOR that offers no provider. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

uint32_t fi_version(void) { return 1u << 16 | MINOR; }

const char *fi_strerror(int code) { return strerror(code); }

int fi_fabric(void *attr, void **fabric, void *context) {
    (void)attr, (void)fabric, (void)context;
    return -ENOSYS;
}

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const void *hints, void **info) {
    (void)version, (void)node, (void)service, (void)flags, (void)hints, (void)info;
    return -ENODATA;
}

void fi_freeinfo(void *info) { (void)info; }

void *fi_dupinfo(const void *info) {
    (void)info;
    return NULL;
}
