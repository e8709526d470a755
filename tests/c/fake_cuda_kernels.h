/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels and the streams that they run on: a part of fake_cuda.c. */

/* The kernel runs on no device: threads call the same source, compiled for the host. */
static void *kernel(void *argument)
{
    struct started *started = argument;
    CUstream s = started->stream;
    own_number = started->number;
    s->kernel->run(s->ep, s->win, s->target, s->local, s->answers);
    __atomic_add_fetch(&s->over, 1, __ATOMIC_RELEASE);
    return NULL;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    if (!current())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!strstr(image, ".target sm_") || !strstr(image, ".entry host_stub_started("))
        return CUDA_ERROR_INVALID_PTX;
    only_module.loaded++;
    *module = &only_module;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    for (size_t i = 0; module && module->loaded && i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(name, kernels[i].name) == 0) {
            *function = &kernels[i];
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleUnload(CUmodule module)
{
    if (!current() || !module || !module->loaded)
        return CUDA_ERROR_INVALID_VALUE;
    module->loaded--;
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CUstream stream, void **parameters, void **extra)
{
    unsigned threads = grid_x * grid_y * grid_z * block_x * block_y * block_z;
    if (!current() || !stream || stream->context != current())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!function || threads < 1 || threads > 1024 || shared || extra || stream->launched)
        return CUDA_ERROR_INVALID_VALUE;
    stream->threads = calloc(threads, sizeof *stream->threads);
    if (!stream->threads)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stream->kernel = function;
    stream->ep = *(host_xpu_ep_t *)parameters[0];
    stream->win = *(host_xpu_win_t *)parameters[1];
    stream->target = *(int *)parameters[2];
    stream->local = *(unsigned long long *)parameters[3];
    stream->answers = *(unsigned long long **)parameters[4];
    for (unsigned i = 0; i < threads; i++) {
        struct started *started = &stream->threads[i];
        *started = (struct started){.stream = stream, .number = i};
        if (pthread_create(&started->thread, NULL, kernel, started) != 0)
            return CUDA_ERROR_OUT_OF_MEMORY;
        stream->launched++;
    }
    return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream stream)
{
    if (!stream || stream->context != current())
        return CUDA_ERROR_INVALID_CONTEXT;
    return __atomic_load_n(&stream->over, __ATOMIC_ACQUIRE) < stream->launched ? CUDA_ERROR_NOT_READY
                                                                             : CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    for (int i = 0; i < stream->launched; i++)
        pthread_join(stream->threads[i].thread, NULL);
    free(stream->threads);
    free(stream);
    __atomic_sub_fetch(&streams, 1, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}
