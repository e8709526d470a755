/* SPDX-License-Identifier: BSD-3-Clause */
/* Host memory that is pinned, and mapped for devices: a part of fake_cuda.c. */

CUresult cuMemHostRegister_v2(void *base, size_t size, unsigned flags)
{
    CUresult result = CUDA_SUCCESS;
    if (!current())
        return CUDA_ERROR_INVALID_CONTEXT;
    struct pinned *pin = calloc(1, sizeof *pin);
    if (!pin)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *pin = (struct pinned){NULL, base, size, (flags & CU_MEMHOSTREGISTER_DEVICEMAP) != 0};
    pthread_mutex_lock(&lock);
    for (struct pinned *p = pins; p; p = p->next)
        if (pin->base < p->base + p->size && p->base < pin->base + size)
            result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (result == CUDA_SUCCESS) {
        pin->next = pins;
        pins = pin;
        pin = NULL;
        counts[2]++;
        if (size > largest)
            largest = size;
    }
    pthread_mutex_unlock(&lock);
    free(pin);
    return result;
}

CUresult cuMemHostUnregister(void *base)
{
    if (!current())
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    struct pinned **link = &pins, *pin;
    while ((pin = *link) && pin->base != base)
        link = &pin->next;
    if (pin)
        *link = pin->next;
    pthread_mutex_unlock(&lock);
    free(pin);
    return pin ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *at, void *base, unsigned flags)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (!current())
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    for (struct pinned *p = pins; p; p = p->next)
        if (p->mapped && (char *)base >= p->base && (char *)base < p->base + p->size)
            result = CUDA_SUCCESS;
    pthread_mutex_unlock(&lock);
    *at = (CUdeviceptr)base;
    return flags ? CUDA_ERROR_INVALID_VALUE : result;
}

/* Allocates pinned host memory. */
CUresult cuMemAllocHost_v2(void **at, size_t size)
{
    size_t whole = (size + 4095) / 4096 * 4096;
    void *base = aligned_alloc(4096, whole);
    CUresult result = base ? cuMemHostRegister_v2(base, whole, CU_MEMHOSTREGISTER_DEVICEMAP) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS)
        free(base);
    else
        *at = base;
    return result;
}

CUresult cuMemFreeHost(void *base)
{
    CUresult result = cuMemHostUnregister(base);
    if (result == CUDA_SUCCESS)
        free(base);
    return result;
}
