/* Preloaded into the ranks of `./dev hosts`: gives the namespaces of all hosts one number, so that a host
 * looks like a clone of a virtual machine. All hosts share one kernel, so their boot id is the same
 * already. */
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static ssize_t answer(const char *text, char *buffer, size_t size)
{
    size_t length = strlen(text);
    if (length > size) {
        length = size;
    }
    memcpy(buffer, text, length);
    return (ssize_t) length;
}

ssize_t readlink(const char *path, char *buffer, size_t size)
{
    if (0 == strcmp(path, "/proc/self/ns/pid")) {
        return answer("pid:[4026531836]", buffer, size);
    }
    if (0 == strcmp(path, "/proc/self/ns/net")) {
        return answer("net:[4026531840]", buffer, size);
    }
    return syscall(SYS_readlinkat, AT_FDCWD, path, buffer, size);
}
