/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process of the same node as a target: how the C plugin finds it, copies to and from its memory,
 * takes its lock, and detects its end. The code uses no modules and no objects of the ABI.
 *
 * Each process owns one segment, a memfd that peers open through /proc/PID/fd. The segment holds
 * the lock under which every atomic on that process's memory runs, and the serial numbers of its
 * living registrations. No object has a name in a file system, so no file is left behind.
 */
#ifndef PEER_H
#define PEER_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "btl_plugin.h"

#define REGION_LIMIT 4096
#define SEGMENT_MAGIC UINT64_C(0x746e656d67657343) /* "Csegment" */

/* Shared by a process and its peers. */
struct segment {
    uint64_t magic;
    uint64_t cookie;         /* distinguishes this segment from an older one with the same pid and fd */
    _Atomic uint32_t closed; /* the owner has finalised: its end is no failure */
    pthread_mutex_t lock;    /* robust: a dead holder does not block the others */
    _Atomic uint64_t serial[REGION_LIMIT]; /* the serial number of the registration in each slot; 0 when free */
};

/* The data that a process publishes. */
struct address {
    uint64_t magic;
    uint64_t cookie;
    int32_t pid;
    int32_t fd; /* the descriptor of the segment in that process */
};

/* A process, from its peers' side. */
struct peer {
    struct segment *segment;
    pid_t pid;
    int pidfd;
    bool gone;
};

static inline struct segment *segment_map(int fd)
{
    void *base = mmap(NULL, sizeof(struct segment), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return base == MAP_FAILED ? NULL : base;
}

/* Makes this process's segment and its address. The caller closes address->fd and unmaps the
 * segment. */
static inline struct segment *segment_create(struct address *address)
{
    struct segment *segment = NULL;
    pthread_mutexattr_t attr;
    int fd = memfd_create("btl-cma", MFD_CLOEXEC);
    if (fd < 0)
        return NULL;
    if (ftruncate(fd, sizeof(struct segment)) == 0)
        segment = segment_map(fd);
    if (segment == NULL || getrandom(&segment->cookie, sizeof segment->cookie, 0) < 0) {
        if (segment != NULL)
            munmap(segment, sizeof *segment);
        close(fd);
        return NULL;
    }
    segment->magic = SEGMENT_MAGIC;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&segment->lock, &attr);
    pthread_mutexattr_destroy(&attr);
    /* If the kernel lets only ancestors attach, this call also lets siblings attach. */
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    *address = (struct address){SEGMENT_MAGIC, segment->cookie, (int32_t)getpid(), fd};
    return segment;
}

static inline void segment_lock(struct segment *segment)
{
    if (pthread_mutex_lock(&segment->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&segment->lock);
}

static inline void segment_unlock(struct segment *segment)
{
    pthread_mutex_unlock(&segment->lock);
}

/* Opens the segment that `address` names; NULL if there is no such segment. */
static inline struct segment *segment_open(const struct address *address)
{
    struct segment *segment = NULL;
    struct stat status;
    char path[64];
    int fd;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)address->pid, (int)address->fd);
    /* The open is nonblocking, because a wrong address may lead to another program's
     * pipe. */
    fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_size == (off_t)sizeof(struct segment))
        segment = segment_map(fd);
    close(fd);
    if (segment != NULL &&
        (segment->magic != SEGMENT_MAGIC || segment->cookie != address->cookie)) {
        munmap(segment, sizeof *segment);
        segment = NULL;
    }
    return segment;
}

/* BTL_BAD_PARAM: the bytes are no address. BTL_UNREACH: no such process exists. */
static inline btl_status peer_open(struct peer *peer, const struct address *address, size_t size)
{
    if (size != sizeof *address || address->magic != SEGMENT_MAGIC || address->pid <= 0 ||
        address->fd < 0)
        return BTL_BAD_PARAM;
    peer->pid = (pid_t)address->pid;
    peer->gone = false;
    peer->pidfd = (int)syscall(SYS_pidfd_open, peer->pid, 0);
    if (peer->pidfd < 0)
        return BTL_UNREACH;
    peer->segment = segment_open(address);
    if (peer->segment == NULL) {
        close(peer->pidfd);
        return BTL_UNREACH;
    }
    return BTL_SUCCESS;
}

static inline void peer_close(struct peer *peer)
{
    munmap(peer->segment, sizeof *peer->segment);
    close(peer->pidfd);
}

/* Whether the process has ended, with or without finalising. */
static inline bool peer_ended(const struct peer *peer)
{
    struct pollfd poll_fd = {.fd = peer->pidfd, .events = POLLIN};
    return poll(&poll_fd, 1, 0) > 0;
}

/* Copies `size` bytes between `local` and address `remote` of the peer. */
static inline btl_status peer_copy(const struct peer *peer, void *local, uint64_t remote,
                                   size_t size, bool to_peer)
{
    size_t done = 0;
    while (done < size) {
        struct iovec here = {(char *)local + done, size - done};
        struct iovec there = {(void *)(uintptr_t)(remote + done), size - done};
        ssize_t moved = to_peer ? process_vm_writev(peer->pid, &here, 1, &there, 1, 0)
                                : process_vm_readv(peer->pid, &here, 1, &there, 1, 0);
        if (moved <= 0)
            return moved < 0 && errno == ESRCH   ? BTL_UNREACH
                   : moved < 0 && errno == EPERM ? BTL_PERM
                                                 : BTL_ERROR;
        done += (size_t)moved;
    }
    return BTL_SUCCESS;
}

/* Whether the kernel permits this process to copy; tested on the process itself. */
static inline bool peer_copy_works(void)
{
    char from = 1, to = 0;
    struct iovec here = {&to, 1}, there = {&from, 1};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1 && to == 1;
}

#endif
