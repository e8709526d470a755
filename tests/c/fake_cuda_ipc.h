/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that another process opens: a part of fake_cuda.c. A handle names the file of the memory, which both
 * processes map. FAKE_CUDA_IPC=unshared refuses handles, FAKE_CUDA_IPC=unopened refuses to open them.
 *
 * As with the real driver, a process cannot open its own memory, a handle of memory that is gone, or memory of a
 * pool (here: of devices with odd numbers) and managed memory. The fake also reports memory that is freed while
 * another process has it open, and memory that was not closed.
 */

struct shared {
    int process, file;
    size_t size;
    unsigned long long id, inode;
};

_Static_assert(sizeof(struct shared) <= sizeof(CUipcMemHandle), "a handle holds what names the memory");

static int is_set(const char *word)
{
    const char *text = getenv("FAKE_CUDA_IPC");
    return text && strcmp(text, word) == 0;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    if (device < 0 || device >= devices())
        return CUDA_ERROR_INVALID_DEVICE;
    memset(uuid->bytes, device + 1, sizeof uuid->bytes);
    return CUDA_SUCCESS;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr at)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    struct stat file;
    if (!current())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (is_set("unshared"))
        return CUDA_ERROR_NOT_SUPPORTED;
    pthread_mutex_lock(&lock);
    struct allocation *a = find(at);
    /* The manual asks for the base of an allocation. */
    if (a && (CUdeviceptr)a->seen == at && !a->managed && !a->opened && a->context->device % 2 == 0 &&
        fstat(a->file, &file) == 0) {
        struct shared shared = {getpid(), a->file, a->size, a->id, file.st_ino};
        memset(handle, 0, sizeof *handle);
        memcpy(handle, &shared, sizeof shared);
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* Memory of another process that is open already; the lock is held. */
static struct allocation *opened(const struct shared *shared)
{
    struct allocation *a = allocations;
    while (a && !(a->opened && a->process == shared->process && a->id == shared->id))
        a = a->next;
    return a;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *at, CUipcMemHandle handle, unsigned flags)
{
    struct shared shared;
    char path[64];
    struct stat found;
    memcpy(&shared, &handle, sizeof shared);
    if (!current() || shared.process == getpid())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return CUDA_ERROR_INVALID_VALUE;
    if (is_set("unopened"))
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    struct allocation *a = opened(&shared);
    if (!a) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", shared.process, shared.file);
        int file = open(path, O_RDWR | O_CLOEXEC);
        if (file < 0 || fstat(file, &found) != 0 || found.st_ino != shared.inode)
            result = CUDA_ERROR_INVALID_HANDLE;
        else if (!(a = mapped(file, shared.size, PROT_NONE)))
            result = CUDA_ERROR_MAP_FAILED;
        if (a) {
            a->id = shared.id;
            a->process = shared.process;
            __atomic_add_fetch(openings(a), 1, __ATOMIC_SEQ_CST);
        } else if (file >= 0) {
            close(file);
        }
    }
    if (a) {
        a->opened++;
        *at = (CUdeviceptr)a->seen;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr at)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (!current())
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    struct allocation *a = find(at);
    if (a && a->opened && (CUdeviceptr)a->seen == at) {
        result = CUDA_SUCCESS;
        if (--a->opened == 0) {
            __atomic_sub_fetch(openings(a), 1, __ATOMIC_SEQ_CST);
            unlink_allocation(a);
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}
