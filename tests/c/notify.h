/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts with notification: each rank waits for its partner's count, then compares the bytes. */

#define NOTIFY_ROUNDS 200
#define NOTIFY_SIZE 1000
/* The place of the counter in a rank's area; the bytes of even and odd rounds precede it. */
#define NOTIFY_COUNTER (AREA - 8)

/* Puts the bytes of a round with notification. */
static btl_status notify(btl_module *module, const struct target *to, unsigned round, size_t size,
                         uint64_t counter)
{
    unsigned char *bytes = (unsigned char *)scratch + round % 2 * NOTIFY_SIZE;
    memset(bytes, (int)(round % 251 + 1), size);
    return module->vtable->put_notify(module, to->endpoint, bytes,
                                      to->address + round % 2 * NOTIFY_SIZE, scratch_handle,
                                      to->handle, size, to->address + counter, to->handle, 1, NULL,
                                      NULL, NULL);
}

static void check_notify(btl_module *module, const struct target *partner)
{
    const btl_module_vtable *vtable = module->vtable;
    unsigned char *area = window + (1 - host.rank) * AREA;
    uint64_t *counter = (uint64_t *)(area + NOTIFY_COUNTER);
    double limit = now() + 60;
    unsigned wrong = 0;
    expect(vtable->put_notify != NULL, "the module puts with notification");
    *counter = 0;
    host_barrier(&host);
    for (unsigned round = 0; round < NOTIFY_ROUNDS; round++) {
        size_t size = 1 + round * 37 % NOTIFY_SIZE;
        btl_status status;
        while ((status = notify(module, partner, round, size, NOTIFY_COUNTER)) ==
                   BTL_TEMP_OUT_OF_RESOURCE &&
               now() < limit)
            progress();
        if (!expect(status >= BTL_SUCCESS, "put with notification %u: %d", round, (int)status))
            break;
        while (__atomic_load_n(counter, __ATOMIC_ACQUIRE) <= round && now() < limit)
            progress();
        for (size_t at = 0; at < size; at++)
            wrong += area[round % 2 * NOTIFY_SIZE + at] != round % 251 + 1;
        expect(vtable->flush(module, partner->endpoint) == BTL_SUCCESS, "flush of a notification");
    }
    expect(__atomic_load_n(counter, __ATOMIC_ACQUIRE) == NOTIFY_ROUNDS && wrong == 0,
           "%llu notifications came, with %u wrong bytes", (unsigned long long)*counter, wrong);
    expect(notify(module, partner, 0, 0, NOTIFY_COUNTER + 4) == BTL_BAD_PARAM,
           "a counter that is not aligned");
    expect(vtable->put_notify(module, partner->endpoint, scratch, partner->address, scratch_handle,
                              partner->handle, 8, partner->address, NULL, 1, NULL, NULL,
                              NULL) == BTL_BAD_PARAM,
           "a counter without a handle");
    expect(vtable->flush(module, NULL) == BTL_SUCCESS, "flush after the refusals");
    host_barrier(&host);
    expect(*counter == NOTIFY_ROUNDS, "a refused put counts nothing");
}
