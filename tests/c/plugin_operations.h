/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of plugin.c that moves bytes: put, get, every atomic, and flush.
 */

static btl_status copy(btl_module *public, btl_endpoint *endpoint, void *local_address,
                       uint64_t remote_address, btl_handle *local_handle,
                       const btl_handle *remote_handle, size_t size, bool to_peer,
                       btl_completion_fn callback, void *context, void *data)
{
    struct module *module = inside(public);
    struct completion *completion;
    btl_status status =
        check_remote(module, endpoint, remote_handle, remote_address, size,
                     to_peer ? BTL_ACCESS_REMOTE_WRITE : BTL_ACCESS_REMOTE_READ);
    if (status == BTL_SUCCESS)
        status = check_local(module, local_handle, local_address, size);
    if (status == BTL_SUCCESS)
        status = reserve(module, endpoint, local_address, local_handle, callback, context, data,
                         &completion);
    if (status != BTL_SUCCESS)
        return status;
    status = peer_copy(&endpoint->peer, local_address, remote_address, size, to_peer);
    if (module->component->breaking != 0 && size == module->component->breaking)
        atomic_store(&module->component->broken, true);
    return settle(module, completion, status);
}

static btl_status put(btl_module *module, btl_endpoint *endpoint, void *local_address,
                      uint64_t remote_address, btl_handle *local_handle,
                      const btl_handle *remote_handle, size_t size, uint32_t flags, int32_t order,
                      btl_completion_fn callback, void *context, void *data)
{
    (void)flags, (void)order;
    return copy(module, endpoint, local_address, remote_address, local_handle, remote_handle, size,
                true, callback, context, data);
}

static btl_status get(btl_module *module, btl_endpoint *endpoint, void *local_address,
                      uint64_t remote_address, btl_handle *local_handle,
                      const btl_handle *remote_handle, size_t size, uint32_t flags, int32_t order,
                      btl_completion_fn callback, void *context, void *data)
{
    (void)flags, (void)order;
    return copy(module, endpoint, local_address, remote_address, local_handle, remote_handle, size,
                false, callback, context, data);
}

/* One atomic of any form. */
struct atomic {
    uint32_t datatype, op, kind;
    size_t count;
    const void *operands; /* `count` elements; NULL for READ */
    const void *compare;  /* one element, for COMPARE */
    void *results;        /* `count` elements; NULL for UPDATE */
    btl_handle *operand_handle, *result_handle;
    void *callback_address; /* the address that the callback gets */
    btl_handle *callback_handle;
};

static btl_status atomic_any(btl_module *public, btl_endpoint *endpoint, uint64_t remote_address,
                             const btl_handle *remote_handle, const struct atomic *what,
                             btl_completion_fn callback, void *context, void *data)
{
    struct module *module = inside(public);
    size_t element = element_size(what->datatype), size = element * what->count;
    struct completion *completion;
    char elements[ATOMIC_BYTES];
    struct segment *segment;
    btl_status status;
    if (element == 0 || what->op > BTL_ATOMIC_OP_CSWAP || what->count > ATOMIC_BYTES / element)
        return BTL_BAD_PARAM;
    if (!element_serves(what->datatype, what->op, what->kind))
        return BTL_NOT_SUPPORTED;
    if (remote_address % element != 0 ||
        (what->operands == NULL && what->op != BTL_ATOMIC_OP_READ) ||
        (what->compare == NULL && what->kind == BTL_ATOMIC_KIND_COMPARE) ||
        (what->results == NULL && what->kind != BTL_ATOMIC_KIND_UPDATE))
        return BTL_BAD_PARAM;
    status = check_remote(module, endpoint, remote_handle, remote_address, size,
                          BTL_ACCESS_REMOTE_ATOMIC);
    if (status == BTL_SUCCESS && what->operand_handle != NULL)
        status = check_local(module, what->operand_handle, what->operands, size);
    if (status == BTL_SUCCESS && what->result_handle != NULL)
        status = check_local(module, what->result_handle, what->results, size);
    if (status == BTL_SUCCESS)
        status = reserve(module, endpoint, what->callback_address, what->callback_handle, callback,
                         context, data, &completion);
    if (status != BTL_SUCCESS)
        return status;

    segment = endpoint->peer.segment;
    segment_lock(segment);
    status = peer_copy(&endpoint->peer, elements, remote_address, size, false);
    if (status == BTL_SUCCESS) {
        if (what->results != NULL)
            memcpy(what->results, elements, size);
        if (what->op != BTL_ATOMIC_OP_READ) {
            for (size_t at = 0; at < size; at += element)
                element_apply(what->datatype, what->op, elements + at,
                              (const char *)what->operands + at, what->compare);
            status = peer_copy(&endpoint->peer, elements, remote_address, size, true);
        }
    }
    segment_unlock(segment);
    return settle(module, completion, status);
}

static btl_status atomic_op(btl_module *module, btl_endpoint *endpoint, uint64_t remote_address,
                            const btl_handle *remote_handle, uint32_t op, uint64_t operand,
                            uint32_t flags, int32_t order, btl_completion_fn callback,
                            void *context, void *data)
{
    struct atomic what = {.datatype = element_type_of_word(flags),
                          .op = (uint32_t)element_op_of_word(op),
                          .kind = BTL_ATOMIC_KIND_UPDATE,
                          .count = 1,
                          .operands = &operand};
    (void)order;
    return atomic_any(module, endpoint, remote_address, remote_handle, &what, callback, context,
                      data);
}

static btl_status atomic_fop(btl_module *module, btl_endpoint *endpoint, void *local_address,
                             uint64_t remote_address, btl_handle *local_handle,
                             const btl_handle *remote_handle, uint32_t op, uint64_t operand,
                             uint32_t flags, int32_t order, btl_completion_fn callback,
                             void *context, void *data)
{
    struct atomic what = {.datatype = element_type_of_word(flags),
                          .op = (uint32_t)element_op_of_word(op),
                          .kind = BTL_ATOMIC_KIND_FETCH,
                          .count = 1,
                          .operands = &operand,
                          .results = local_address,
                          .result_handle = local_handle,
                          .callback_address = local_address,
                          .callback_handle = local_handle};
    (void)order;
    return atomic_any(module, endpoint, remote_address, remote_handle, &what, callback, context,
                      data);
}

static btl_status atomic_cswap(btl_module *module, btl_endpoint *endpoint, void *local_address,
                               uint64_t remote_address, btl_handle *local_handle,
                               const btl_handle *remote_handle, uint64_t compare, uint64_t value,
                               uint32_t flags, int32_t order, btl_completion_fn callback,
                               void *context, void *data)
{
    struct atomic what = {.datatype = element_type_of_word(flags),
                          .op = BTL_ATOMIC_OP_CSWAP,
                          .kind = BTL_ATOMIC_KIND_COMPARE,
                          .count = 1,
                          .operands = &value,
                          .compare = &compare,
                          .results = local_address,
                          .result_handle = local_handle,
                          .callback_address = local_address,
                          .callback_handle = local_handle};
    (void)order;
    return atomic_any(module, endpoint, remote_address, remote_handle, &what, callback, context,
                      data);
}

static btl_status atomic_query(btl_module *module, uint32_t datatype, uint32_t op, uint32_t kind,
                               size_t *max_count)
{
    if (module == NULL || max_count == NULL || element_size(datatype) == 0 ||
        op > BTL_ATOMIC_OP_CSWAP || kind > BTL_ATOMIC_KIND_COMPARE)
        return BTL_BAD_PARAM;
    if (!element_serves(datatype, op, kind))
        return BTL_NOT_SUPPORTED;
    *max_count = kind == BTL_ATOMIC_KIND_COMPARE ? 1 : ATOMIC_BYTES / element_size(datatype);
    return BTL_SUCCESS;
}

static btl_status atomic_opv(btl_module *module, btl_endpoint *endpoint, const void *local_address,
                             uint64_t remote_address, btl_handle *local_handle,
                             const btl_handle *remote_handle, uint32_t datatype, uint32_t op,
                             size_t count, btl_completion_fn callback, void *context, void *data)
{
    struct atomic what = {.datatype = datatype,
                          .op = op,
                          .kind = BTL_ATOMIC_KIND_UPDATE,
                          .count = count,
                          .operands = local_address,
                          .operand_handle = local_handle,
                          .callback_address = (void *)(uintptr_t)local_address,
                          .callback_handle = local_handle};
    return atomic_any(module, endpoint, remote_address, remote_handle, &what, callback, context,
                      data);
}

static btl_status atomic_fopv(btl_module *module, btl_endpoint *endpoint, const void *local_address,
                              void *result_address, uint64_t remote_address,
                              btl_handle *local_handle, btl_handle *result_handle,
                              const btl_handle *remote_handle, uint32_t datatype, uint32_t op,
                              size_t count, btl_completion_fn callback, void *context, void *data)
{
    struct atomic what = {.datatype = datatype,
                          .op = op,
                          .kind = BTL_ATOMIC_KIND_FETCH,
                          .count = count,
                          .operands = local_address,
                          .results = result_address,
                          .operand_handle = local_address == NULL ? NULL : local_handle,
                          .result_handle = result_handle,
                          .callback_address = result_address,
                          .callback_handle = result_handle};
    return atomic_any(module, endpoint, remote_address, remote_handle, &what, callback, context,
                      data);
}

static btl_status atomic_cswapv(btl_module *module, btl_endpoint *endpoint,
                                const void *local_address, const void *compare_address,
                                void *result_address, uint64_t remote_address,
                                btl_handle *result_handle, const btl_handle *remote_handle,
                                uint32_t datatype, btl_completion_fn callback, void *context,
                                void *data)
{
    struct atomic what = {.datatype = datatype,
                          .op = BTL_ATOMIC_OP_CSWAP,
                          .kind = BTL_ATOMIC_KIND_COMPARE,
                          .count = 1,
                          .operands = local_address,
                          .compare = compare_address,
                          .results = result_address,
                          .result_handle = result_handle,
                          .callback_address = result_address,
                          .callback_handle = result_handle};
    return atomic_any(module, endpoint, remote_address, remote_handle, &what, callback, context,
                      data);
}

static btl_status flush(btl_module *public, btl_endpoint *endpoint)
{
    struct module *module = inside(public);
    uint64_t end;
    if (module == NULL || (endpoint != NULL && endpoint->module != public))
        return BTL_BAD_PARAM;
    pthread_mutex_lock(&module->lock);
    end = module->next_number;
    pthread_mutex_unlock(&module->lock);
    drain(module, endpoint, end);
    return endpoint != NULL && endpoint->peer.gone ? BTL_UNREACH : BTL_SUCCESS;
}
