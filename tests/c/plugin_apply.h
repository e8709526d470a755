/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of plugin.c that changes elements of any size and alignment in runs of the target's memory. The
 * origin changes the elements, under the target's lock, as it does for typed atomics.
 */

/* A place among the blocks of all runs. */
struct block {
    size_t run;
    uint64_t number; /* in its run */
};

/* Copies blocks from `from` on, from the target or to it, until whole elements are copied or `bytes` bytes. Returns how
 * many bytes these are, and moves `from` behind them. */
static btl_status apply_copy(const struct peer *peer, char *elements, uint64_t address,
                             const btl_apply_request *request, struct block *from, size_t *bytes,
                             bool write)
{
    size_t done = 0, most = *bytes;
    do {
        const btl_apply_run *run = &request->runs[from->run];
        uint64_t at = address + run->offset + from->number * run->stride;
        btl_status status = peer_copy(peer, elements + done, at, run->length, write);
        if (status != BTL_SUCCESS)
            return status;
        done += run->length;
        if (++from->number == run->count)
            *from = (struct block){.run = from->run + 1};
    } while (done < most && done % request->size != 0);
    *bytes = done;
    return BTL_SUCCESS;
}

/* Whether the plugin knows such elements, and each run lies in the region; adds up the bytes of all. */
static btl_status apply_check(const btl_handle *handle, uint64_t address,
                              const btl_apply_request *request, size_t *total)
{
    size_t head = BTL_APPLY_HEAD + request->run_count * BTL_APPLY_RUN;
    *total = 0;
    if (request->datatype == BTL_APPLY_BYTES)
        return BTL_NOT_SUPPORTED;
    if (request->run_count == 0 || request->runs == NULL || request->size == 0 ||
        request->size > BTL_MOST_ELEMENT ||
        (request->datatype != BTL_APPLY_OTHER && element_size(request->datatype) != request->size) ||
        (request->op != BTL_APPLY_OTHER && request->op > BTL_ATOMIC_OP_CSWAP))
        return BTL_BAD_PARAM;
    if (request->run_count > BTL_MOST_APPLIED / BTL_APPLY_RUN || head > BTL_MOST_APPLIED)
        return BTL_VALUE_OUT_OF_BOUNDS;
    for (size_t i = 0; i < request->run_count; i++) {
        const btl_apply_run *run = &request->runs[i];
        uint64_t last, bytes;
        if (run->count == 0 || __builtin_mul_overflow(run->length, run->count, &bytes) ||
            bytes > BTL_MOST_APPLIED - head - *total ||
            __builtin_mul_overflow(run->stride, run->count - 1, &last) ||
            __builtin_add_overflow(last, run->length, &last) ||
            __builtin_add_overflow(address, run->offset, &bytes) ||
            within(handle, bytes, last) != BTL_SUCCESS)
            return BTL_VALUE_OUT_OF_BOUNDS;
        *total += (size_t)(run->length * run->count);
    }
    return *total % request->size == 0 ? BTL_SUCCESS : BTL_BAD_PARAM;
}

/* Changes elements by operands; for a compare-and-swap, `values` are the new values. */
static btl_status apply_change(struct module *module, const btl_apply_request *request,
                               char *elements, const char *operands, const char *values,
                               size_t bytes)
{
    size_t size = request->size;
    bool compares = request->op == BTL_ATOMIC_OP_CSWAP;
    bool typed = element_size(request->datatype) == size && request->op < BTL_ATOMIC_OP_CSWAP &&
                 element_serves(request->datatype, request->op, BTL_ATOMIC_KIND_FETCH);
    if (!compares && !typed && request->op != BTL_ATOMIC_OP_WRITE)
        return module->arithmetic == NULL
                   ? BTL_NOT_SUPPORTED
                   : module->arithmetic(module->arithmetic_context, request->code, size, elements,
                                        operands, bytes / size);
    for (size_t at = 0; at < bytes; at += size) {
        if (typed)
            element_apply(request->datatype, request->op, elements + at, operands + at, NULL);
        else if (!compares)
            memcpy(elements + at, operands + at, size);
        else if (memcmp(elements + at, operands + at, size) == 0)
            memcpy(elements + at, values + at, size);
    }
    return BTL_SUCCESS;
}

/* Changes all elements under the target's lock, in the order of the runs, because runs may name an element twice. */
static btl_status apply_all(struct module *module, const struct peer *peer, uint64_t address,
                            const btl_apply_request *request, size_t total)
{
    _Alignas(BTL_MOST_ELEMENT) char elements[BTL_MOST_APPLIED];
    const char *operands = request->operands;
    struct block next = {0};
    for (size_t done = 0, bytes; done < total; done += bytes) {
        struct block here = next;
        btl_status status;
        bytes = total - done;
        status = apply_copy(peer, elements, address, request, &next, &bytes, false);
        if (status == BTL_SUCCESS && request->results != NULL)
            memcpy((char *)request->results + done, elements, bytes);
        if (status == BTL_SUCCESS && request->op != BTL_ATOMIC_OP_READ) {
            status = apply_change(module, request, elements, operands + done,
                                  request->op == BTL_ATOMIC_OP_CSWAP ? operands + total + done : NULL,
                                  bytes);
            if (status == BTL_SUCCESS)
                status = apply_copy(peer, elements, address, request, &here, &bytes, true);
        }
        if (status != BTL_SUCCESS)
            return status;
    }
    return BTL_SUCCESS;
}

static btl_status apply(btl_module *public, btl_endpoint *endpoint, uint64_t remote_address,
                        const btl_handle *remote_handle, const btl_apply_request *request,
                        btl_completion_fn callback, void *context, void *data)
{
    struct module *module = inside(public);
    struct completion *completion;
    struct segment *segment;
    size_t total;
    btl_status status;
    if (request == NULL ||
        (request->operands == NULL && request->op != BTL_ATOMIC_OP_READ))
        return BTL_BAD_PARAM;
    status = check_remote(module, endpoint, remote_handle, remote_address, 0,
                          BTL_ACCESS_REMOTE_ATOMIC);
    if (status == BTL_SUCCESS)
        status = apply_check(remote_handle, remote_address, request, &total);
    if (status == BTL_SUCCESS)
        status = reserve(module, endpoint, request->results, NULL, callback, context, data,
                         &completion);
    if (status != BTL_SUCCESS)
        return status;

    segment = endpoint->peer.segment;
    segment_lock(segment);
    status = apply_all(module, &endpoint->peer, remote_address, request, total);
    segment_unlock(segment);
    return settle(module, completion, status);
}

static btl_status register_apply(btl_module *public, btl_apply_fn function, void *context)
{
    struct module *module = inside(public);
    if (module == NULL)
        return BTL_BAD_PARAM;
    module->arithmetic = function;
    module->arithmetic_context = context;
    return BTL_SUCCESS;
}
