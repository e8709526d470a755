/* SPDX-License-Identifier: BSD-3-Clause */
/* Two-sided messages between the two ranks: each way of sending, order, the sender, and refusals. */

#define SEND_TAG 7
#define SENDS 600
#define LONGEST_HEADER 24

static struct received {
    unsigned count;  /* messages so far */
    unsigned wrong;  /* messages with unexpected contents */
    btl_endpoint *sender;
} received;

/* The bytes of message `number`. */
static size_t send_bytes(unsigned number, unsigned char *bytes)
{
    size_t size = LONGEST_HEADER + number * 13 % 3000;
    for (size_t at = 0; at < size; at++)
        bytes[at] = (unsigned char)(number + at * 7);
    return size;
}

static void receive(btl_module *module, btl_endpoint *endpoint, uint8_t tag, const void *data,
                    size_t size, void *context)
{
    struct received *r = context;
    unsigned char wanted[LONGEST_HEADER + 3000];
    (void)module;
    r->wrong += tag != SEND_TAG || endpoint != r->sender || size != send_bytes(r->count, wanted) ||
                memcmp(data, wanted, size) != 0;
    r->count++;
}

/* Sends one message in one of the three ways. */
static btl_status send_one(btl_module *module, btl_endpoint *partner, unsigned number)
{
    const btl_module_vtable *vtable = module->vtable;
    static unsigned char bytes[LONGEST_HEADER + 3000];
    size_t size = send_bytes(number, bytes), rest = size - LONGEST_HEADER;
    btl_descriptor *descriptor;
    btl_status status;
    if (number % 3 == 0)
        return vtable->sendi(module, partner, bytes, LONGEST_HEADER, bytes + LONGEST_HEADER, rest,
                             SEND_TAG);
    if (number % 3 == 1) {
        descriptor = vtable->alloc(module, partner, size);
        if (descriptor == NULL || descriptor->size != size)
            return BTL_ERROR;
        memcpy(descriptor->data, bytes, size);
    } else {
        descriptor = vtable->prepare_src(module, partner, bytes + LONGEST_HEADER, LONGEST_HEADER,
                                         &rest);
        if (descriptor == NULL || rest != size - LONGEST_HEADER)
            return BTL_ERROR;
        memcpy(descriptor->data, bytes, LONGEST_HEADER);
    }
    status = vtable->send(module, partner, descriptor, SEND_TAG);
    expect(vtable->free(module, descriptor) == BTL_SUCCESS, "a descriptor is freed");
    return status;
}

static void check_sends(btl_module *module, btl_endpoint *partner)
{
    const btl_module_vtable *vtable = module->vtable;
    btl_descriptor *longest;
    double limit = now() + 60;
    received.sender = partner;
    expect(vtable->register_receive(module, SEND_TAG, receive, &received) == BTL_SUCCESS,
           "a function for messages");
    host_barrier(&host);
    for (unsigned number = 0; number < SENDS; number++) {
        btl_status status;
        while ((status = send_one(module, partner, number)) == BTL_TEMP_OUT_OF_RESOURCE &&
               now() < limit)
            progress();
        if (!expect(status == BTL_COMPLETED, "message %u: %d", number, (int)status))
            break;
    }
    while (received.count < SENDS && now() < limit)
        progress();
    expect(received.count == SENDS && received.wrong == 0, "%u messages came, %u of them wrong",
           received.count, received.wrong);

    longest = vtable->alloc(module, partner, SIZE_MAX);
    if (expect(longest != NULL && longest->size >= 4096, "the longest message")) {
        expect(vtable->sendi(module, partner, longest->data, longest->size, "x", 1, SEND_TAG) ==
                   BTL_BAD_PARAM,
               "a message that is too long");
        vtable->free(module, longest);
    }
    expect(vtable->send(module, partner, NULL, SEND_TAG) == BTL_BAD_PARAM, "no descriptor");
    expect(vtable->sendi(module, NULL, "x", 1, NULL, 0, SEND_TAG) == BTL_BAD_PARAM, "no endpoint");
    expect(vtable->sendi(module, partner, NULL, 1, NULL, 0, SEND_TAG) == BTL_BAD_PARAM,
           "a header of no memory");
    expect(vtable->free(module, NULL) == BTL_BAD_PARAM, "nothing to free");
    /* No rank goes on while messages of its partner are outstanding. */
    host_barrier(&host);
    expect(vtable->register_receive(module, SEND_TAG, NULL, NULL) == BTL_SUCCESS, "no function");
}
