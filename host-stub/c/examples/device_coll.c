/* A collective of the program's own for buffers on a device: a layer whose allreduce takes device buffers. The layer
 * brings one fragment at a time to the host, where the allreduce below combines it, and back to the device. So
 * the layer needs two fragments of host memory, for buffers of any length. Without the layer, the host copies
 * them as a whole.
 *
 *   host-stub launch -n 2 --mca host_pretended_devices 1 -- ./device_coll
 */
#include "example.h"

/* Below the host's node layer (100), so that its hook runs later, and its table is called first. */
#define LAYER 10
#define FRAGMENT 1000
#define COUNT (10 * FRAGMENT + 1)

static int device_calls, host_calls, fragments;

/* The place of a buffer: its device, or -1 for the host. */
struct place {
    int device;
    char *address;
};

static int find(const void *pointer, struct place *place) {
    void *address = NULL;
    int rc = host_target_location(pointer, &place->device, &address);
    place->address = address;
    return rc;
}

static int fetch(void *into, struct place from, size_t at, size_t size) {
    if (from.device >= 0)
        return host_device_read(into, from.address + at, size);
    memcpy(into, from.address + at, size);
    return HOST_SUCCESS;
}

static int store(struct place into, size_t at, const void *from, size_t size) {
    if (into.device >= 0)
        return host_device_write(into.address + at, from, size);
    memcpy(into.address + at, from, size);
    return HOST_SUCCESS;
}

static int allreduce(void *data, const host_coll_layer_t *layer, host_comm_t *comm, int collective,
                     const host_coll_args_t *args) {
    int type = args->datatype & ~HOST_ON_DEVICE;
    if (args->datatype == type || type != HOST_UINT64) {
        host_calls++;
        return host_coll_previous(data, layer, comm, collective, args);
    }
    device_calls++;
    struct place from, into;
    int rc = find(args->send ? args->send : args->recv, &from);
    if (rc == HOST_SUCCESS)
        rc = find(args->recv, &into);
    uint64_t operands[FRAGMENT], results[FRAGMENT];
    host_coll_args_t part = *args;
    part.datatype = type;
    part.send = operands;
    part.recv = results;
    for (size_t done = 0; rc == HOST_SUCCESS && done < args->count; done += part.count) {
        part.count = args->count - done < FRAGMENT ? args->count - done : FRAGMENT;
        size_t at = done * sizeof *operands, size = part.count * sizeof *operands;
        rc = fetch(operands, from, at, size);
        if (rc == HOST_SUCCESS)
            rc = host_coll_previous(data, layer, comm, collective, &part);
        if (rc == HOST_SUCCESS)
            rc = store(into, at, results, size);
        fragments++;
    }
    return rc;
}

/* `takes` says whether the allreduce of new communicators takes buffers on devices. */
static int created(host_comm_t *comm, void *takes) {
    host_coll_table_t table = {.magic = HOST_COLL_TABLE_MAGIC, .size = sizeof table};
    int rc = host_comm_get_table(comm, &table);
    if (rc != HOST_SUCCESS)
        return rc;
    host_coll_entry_t *entry = &table.entries[HOST_COLL_ALLREDUCE];
    entry->blocking = allreduce;
    entry->flags = *(int *)takes ? HOST_COLL_TAKES_DEVICES : 0;
    return host_comm_override(comm, &table);
}

static int freed(host_comm_t *comm, void *takes) {
    (void)takes;
    return host_comm_restore(comm);
}

int main(void) {
    MUST(host_init());
    int rank = host_rank(), size = host_size();
    EXPECT(host_device_count() >= 1);

    int takes = 1;
    host_comm_t *world = NULL, *own = NULL, *plain = NULL;
    MUST(host_comm_world(&world));
    MUST(host_comm_hooks_register(LAYER, created, freed, &takes));
    MUST(host_comm_dup(world, &own));
    takes = 0;
    MUST(host_comm_dup(world, &plain));

    static uint64_t values[COUNT], sums[COUNT];
    void *send = NULL, *recv = NULL;
    MUST(host_device_alloc(0, sizeof values, &send));
    MUST(host_device_alloc(0, sizeof values, &recv));
    for (int i = 0; i < COUNT; i++)
        values[i] = (uint64_t)i + (uint64_t)rank;
    MUST(host_device_write(send, values, sizeof values));

    /* From device to device, from device to host, in place, and with host memory alone. */
    uint64_t ranks = (uint64_t)(size * (size - 1) / 2);
    for (int way = 0; way < 4; way++) {
        void *from = way == 3 ? (void *)values : way == 2 ? NULL : send;
        void *into = way == 1 || way == 3 ? (void *)sums : recv;
        if (way == 2)
            MUST(host_device_write(recv, values, sizeof values));
        MUST(host_allreduce(from, into, COUNT, HOST_UINT64, HOST_SUM, own));
        if (into == recv)
            MUST(host_device_read(sums, recv, sizeof sums));
        for (int i = 0; i < COUNT; i++)
            EXPECT(sums[i] == (uint64_t)size * (uint64_t)i + ranks);
        memset(sums, 0, sizeof sums);
    }
    EXPECT(device_calls == 3 && host_calls == 1 && fragments == 3 * 11);

    /* The layer passes calls on unchanged if it has no algorithm for them; the host copies for the entry
     * below. */
    uint32_t most[2] = {0, 1};
    MUST(host_allreduce(send, recv, 2, HOST_UINT32, HOST_MAX, own));
    MUST(host_device_read(most, recv, sizeof most));
    EXPECT(most[0] == (uint32_t)size - 1 && most[1] == 0 && host_calls == 2 && device_calls == 3);

    /* A layer without this flag gets host memory. The nonblocking form gets host memory, too, because this layer does
     * not replace it. */
    MUST(host_allreduce(send, recv, COUNT, HOST_UINT64, HOST_SUM, plain));
    EXPECT(device_calls == 3 && host_calls == 3);
    host_coll_request_t *request = NULL;
    MUST(host_iallreduce(send, recv, COUNT, HOST_UINT64, HOST_SUM, own, &request));
    MUST(host_coll_wait(&request));
    EXPECT(device_calls == 3);
    MUST(host_device_read(sums, recv, sizeof sums));
    EXPECT(sums[COUNT - 1] == (uint64_t)size * (COUNT - 1) + ranks);

    MUST(host_comm_free(&plain));
    MUST(host_comm_free(&own));
    MUST(host_comm_hooks_unregister(LAYER));
    MUST(host_device_free(&send));
    MUST(host_device_free(&recv));
    MUST(host_finalize());
    printf("passed\n");
    return 0;
}
