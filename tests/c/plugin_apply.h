/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of plugin.c that changes elements of any size and alignment, in runs of the peer's memory. One element is read, changed and
 * written back after the other, under the target's lock like every atomic. Ranks run one program, so the function of this
 * process is that of the target.
 */

/* The place in the blocks of runs. */
struct walk {
    const btl_apply_run *run;
    uint64_t block, taken;
};

/* Checks the runs and what they hold; gives the bytes of all elements. */
static btl_status check_runs(struct module *module, btl_endpoint *endpoint, uint64_t address,
                             const btl_handle *handle, const btl_apply_request *request,
                             size_t *bytes)
{
    uint64_t total = 0, factor = request->op == BTL_ATOMIC_OP_CSWAP ? 2 : 1;
    if (request->run_count > BTL_MOST_APPLIED / BTL_APPLY_RUN)
        return BTL_VALUE_OUT_OF_BOUNDS;
    for (size_t i = 0; i < request->run_count; i++) {
        const btl_apply_run *run = &request->runs[i];
        uint64_t first, span, held;
        btl_status status;
        if (run->length == 0 || run->count == 0)
            return BTL_BAD_PARAM;
        if (__builtin_mul_overflow(run->count - 1, run->stride, &span) ||
            __builtin_add_overflow(span, run->length, &span) ||
            __builtin_add_overflow(address, run->offset, &first) ||
            __builtin_mul_overflow(run->count, run->length, &held) ||
            __builtin_add_overflow(total, held, &total) || total > BTL_MOST_APPLIED)
            return BTL_VALUE_OUT_OF_BOUNDS;
        status = check_remote(module, endpoint, handle, first, span, BTL_ACCESS_REMOTE_ATOMIC);
        if (status != BTL_SUCCESS)
            return status;
    }
    if (total == 0 || total % request->size != 0)
        return BTL_BAD_PARAM;
    *bytes = total;
    return BTL_APPLY_HEAD + BTL_APPLY_RUN * request->run_count + factor * total > BTL_MOST_APPLIED
               ? BTL_VALUE_OUT_OF_BOUNDS
               : BTL_SUCCESS;
}

/* Copies an element, which may lie in several blocks, from where the walk is or to there. */
static btl_status move_element(btl_endpoint *endpoint, uint64_t address, struct walk *walk,
                               char *element, size_t size, bool to_peer)
{
    while (size > 0) {
        const btl_apply_run *run = walk->run;
        uint64_t left = run->length - walk->taken;
        size_t part = left < size ? (size_t)left : size;
        uint64_t at = address + run->offset + walk->block * run->stride + walk->taken;
        btl_status status = peer_copy(&endpoint->peer, element, at, part, to_peer);
        if (status != BTL_SUCCESS)
            return status;
        element += part;
        size -= part;
        walk->taken += part;
        if (walk->taken == run->length) {
            walk->taken = 0;
            if (++walk->block == run->count) {
                walk->block = 0;
                walk->run++;
            }
        }
    }
    return BTL_SUCCESS;
}

/* Changes the copy of an element. */
static btl_status change_element(struct module *module, const btl_apply_request *request,
                                 char *element, const char *operand, const char *compare)
{
    _Alignas(BTL_MOST_ELEMENT) char aligned[BTL_MOST_ELEMENT];
    size_t size = request->size;
    if (request->op == BTL_ATOMIC_OP_READ ||
        (request->op == BTL_ATOMIC_OP_CSWAP && memcmp(element, compare, size) != 0))
        return BTL_SUCCESS;
    memcpy(aligned, operand, size);
    if (request->op == BTL_ATOMIC_OP_WRITE || request->op == BTL_ATOMIC_OP_CSWAP) {
        memcpy(element, aligned, size);
        return BTL_SUCCESS;
    }
    if (element_size(request->datatype) == size && request->op < BTL_ATOMIC_OP_CSWAP &&
        element_serves(request->datatype, request->op, BTL_ATOMIC_KIND_FETCH)) {
        element_apply(request->datatype, request->op, element, aligned, NULL);
        return BTL_SUCCESS;
    }
    if (module->combine == NULL)
        return BTL_NOT_SUPPORTED;
    return module->combine(module->combine_context, request->code, size, element, aligned, 1);
}

static btl_status apply(btl_module *public, btl_endpoint *endpoint, uint64_t remote_address,
                        const btl_handle *remote_handle, const btl_apply_request *request,
                        btl_completion_fn callback, void *context, void *data)
{
    struct module *module = inside(public);
    _Alignas(BTL_MOST_ELEMENT) char element[BTL_MOST_ELEMENT];
    struct completion *completion;
    const char *compare, *operands;
    struct walk walk;
    btl_status status;
    size_t bytes;
    if (request == NULL || request->size == 0 || request->size > BTL_MOST_ELEMENT ||
        (request->operands == NULL && request->op != BTL_ATOMIC_OP_READ) ||
        (request->results == NULL &&
         (request->op == BTL_ATOMIC_OP_READ || request->op == BTL_ATOMIC_OP_CSWAP)))
        return BTL_BAD_PARAM;
    if (request->datatype == BTL_APPLY_BYTES)
        return BTL_NOT_SUPPORTED;
    status = check_runs(module, endpoint, remote_address, remote_handle, request, &bytes);
    if (status == BTL_SUCCESS)
        status = reserve(module, endpoint, request->results, NULL, callback, context, data,
                         &completion);
    if (status != BTL_SUCCESS)
        return status;

    compare = request->operands;
    operands = request->op == BTL_ATOMIC_OP_CSWAP ? compare + bytes : compare;
    walk = (struct walk){.run = request->runs};
    segment_lock(endpoint->peer.segment);
    for (size_t at = 0; at < bytes && status == BTL_SUCCESS; at += request->size) {
        struct walk before = walk;
        status = move_element(endpoint, remote_address, &walk, element, request->size, false);
        if (status == BTL_SUCCESS && request->results != NULL)
            memcpy((char *)request->results + at, element, request->size);
        if (status == BTL_SUCCESS)
            status = change_element(module, request, element, operands + at, compare + at);
        if (status == BTL_SUCCESS && request->op != BTL_ATOMIC_OP_READ)
            status = move_element(endpoint, remote_address, &before, element, request->size, true);
    }
    segment_unlock(endpoint->peer.segment);
    return settle(module, completion, status);
}

static btl_status register_apply(btl_module *public, btl_apply_fn function, void *context)
{
    struct module *module = inside(public);
    if (module == NULL)
        return BTL_BAD_PARAM;
    module->combine = function;
    module->combine_context = context;
    return BTL_SUCCESS;
}
